// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	configv1 "github.com/openshift/api/config/v1"
)

// Platforms are those that a cluster can be shaped for.
var Platforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType, configv1.VSpherePlatformType,
	configv1.NutanixPlatformType, configv1.NonePlatformType, configv1.BareMetalPlatformType,
}

// platform is what workers of a platform differ in.
type platform struct {
	// externalCloud: a cloud controller manager completes Nodes.
	externalCloud bool
	// nodeName says whether a Node of that name is that of a virtual machine. Nil where no cloud controller manager completes Nodes.
	nodeName func(node string, vm VirtualMachine) bool
	// nodeManager: a program on the host does what the cloud controller manager does elsewhere.
	nodeManager bool
	// onPrem: the unit of the kubelet is that of platforms without a load balancer of their own.
	onPrem bool
	// providerID: the unit has --provider-id.
	providerID bool
	// machineID is the provider ID of a virtual machine, in the form that the Machine API and the cloud controller manager of the platform
	// write. %s are eight hexadecimal digits of it. Empty: nobody writes one.
	machineID string
	// cloudConf is the content of /etc/kubernetes/cloud.conf, which is always there.
	cloudConf string
	// credentials is the program by which the kubelet gets credentials of registries.
	credentials string
	// credentialsConfig is the file for it.
	credentialsConfig string
	// dropins are those of the kubelet's unit, with those that all have.
	dropins []string
}

var platforms = map[configv1.PlatformType]platform{
	configv1.AWSPlatformType: {
		externalCloud: true, nodeName: byPrivateDNSName, providerID: true, credentials: "ecr-credential-provider", credentialsConfig: ecrConfig,
		machineID: "aws:///us-east-2a/i-0abcdef01%s", dropins: []string{"20-node-env.conf"},
	},
	configv1.AzurePlatformType: {
		externalCloud: true, nodeManager: true, providerID: true, cloudConf: `{"cloud":"AzurePublicCloud","tenantId":"11111111-2222-3333-4444-555555555555","useManagedIdentityExtension":true}`,
		credentials: "acr-credential-provider", credentialsConfig: acrConfig,
		machineID: "azure:///subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/demo-7k2xq-rg/providers/Microsoft.Compute/virtualMachines/demo-7k2xq-%s",
	},
	configv1.GCPPlatformType: {
		externalCloud: true, nodeName: byFirstLabel, providerID: true, cloudConf: "[global]\nproject-id = example\nmultizone = true\n",
		credentials: "gcr-credential-provider", credentialsConfig: gcrConfig, machineID: "gce://example/us-east1-b/demo-7k2xq-%s",
	},
	configv1.VSpherePlatformType: {
		externalCloud: true, nodeName: byFirstLabel, onPrem: true, cloudConf: "global:\n  insecureFlag: false\nvcenter:\n  vc.example.com:\n    server: vc.example.com\n",
		machineID: "vsphere://4210a1b2-c3d4-e5f6-0718-2930%s",
	},
	configv1.NutanixPlatformType: {
		externalCloud: true, nodeName: byName, onPrem: true, cloudConf: `{"prismCentral":{"address":"prism.example.com","port":9440}}`,
		machineID: "nutanix://7b1de6c0-5f0a-4f5e-9d0c-9a3e%s",
	},
	configv1.NonePlatformType:      {providerID: true},
	configv1.BareMetalPlatformType: {onPrem: true},
}

const ecrConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
  - name: ecr-credential-provider
    matchImages:
      - "*.dkr.ecr.*.amazonaws.com"
      - "*.dkr.ecr.*.amazonaws.com.cn"
      - "registry.example.com"
    defaultCacheDuration: "12h"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
`

const acrConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
  - name: acr-credential-provider
    matchImages:
      - "*.azurecr.io"
    defaultCacheDuration: "10m"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - /etc/kubernetes/cloud.conf
`

const gcrConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
  - name: gcr-credential-provider
    matchImages:
      - "gcr.io"
      - "*.pkg.dev"
    defaultCacheDuration: "1m"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - get-credentials
      - --v=3
`
