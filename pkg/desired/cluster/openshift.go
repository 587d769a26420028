// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// readInfrastructure reads the platform, and where nodes reach the API server.
func (r *reader) readInfrastructure(ctx context.Context) error {
	infrastructure := &configv1.Infrastructure{}
	found, err := r.get(ctx, "Infrastructure", "", clusterName, infrastructure)
	if !found {
		return err
	}
	r.openShift = true
	if s := infrastructure.Status.PlatformStatus; s != nil && s.Type != "" {
		r.cluster.Platform = s.Type
	}
	r.cluster.APIServerURL = infrastructure.Status.APIServerInternalURL
	if slices.Contains(externalClouds, r.cluster.Platform) {
		r.cluster.KubeletArguments = map[string]string{"cloud-provider": "external"}
	}
	if r.cluster.Platform == configv1.AWSPlatformType {
		r.cluster.CredentialProviderConfig = []byte(ecrCredentialProvider)
	}
	return nil
}

// externalClouds are the platforms on which a cloud controller manager of OpenShift
// completes Nodes, for which the kubelet has to leave that to it.
var externalClouds = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType, configv1.IBMCloudPlatformType,
	configv1.NutanixPlatformType, configv1.OpenStackPlatformType, configv1.PowerVSPlatformType, configv1.VSpherePlatformType,
}

// ecrCredentialProvider says for which images the kubelet requests from the provider of AWS
// credentials: those of the registries that cloud-provider-aws documents.
//
//nolint:gosec // the name of a program, no credential
const ecrCredentialProvider = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr-credential-provider.exe
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 12h
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  - "*.dkr.ecr-fips.*.amazonaws.com"
  - "*.dkr.ecr.*.c2s.ic.gov"
  - "*.dkr.ecr.*.sc2s.sgov.gov"
`

// readNetwork reads the networks of services.
func (r *reader) readNetwork(ctx context.Context) error {
	network := &configv1.Network{}
	found, err := r.get(ctx, "Network", "", clusterName, network)
	if !found {
		return err
	}
	for _, networks := range [][]string{network.Status.ServiceNetwork, network.Spec.ServiceNetwork} {
		if len(networks) > 0 {
			r.cluster.ServiceCIDRs = networks
			break
		}
	}
	return nil
}

// readOverlay reads the port of the hybrid overlay, which differs where the platform
// itself uses the usual one.
func (r *reader) readOverlay(ctx context.Context) error {
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(operatorNetworkKind)
	found, err := r.get(ctx, operatorNetworkKind.Kind+"."+operatorNetworkKind.Group, "", clusterName, network)
	if !found {
		return err
	}
	path := []string{"spec", "defaultNetwork", "ovnKubernetesConfig", "hybridOverlayConfig", "hybridOverlayVXLANPort"}
	port, _, err := unstructured.NestedInt64(network.Object, path...)
	if err != nil || port < 0 || port > 65535 {
		r.find("the "+strings.Join(path, ".")+" of "+operatorNetworkKind.Kind+"."+operatorNetworkKind.Group+" cluster is not a port", "correct it")
		return nil //nolint:nilerr // it is a finding
	}
	r.cluster.VXLANPort = uint16(port)
	return nil
}

// readProxy reads the proxy that is in effect.
func (r *reader) readProxy(ctx context.Context) error {
	proxy := &configv1.Proxy{}
	_, err := r.get(ctx, "Proxy", "", clusterName, proxy)
	r.cluster.Proxy = document.Proxy{HTTP: proxy.Status.HTTPProxy, HTTPS: proxy.Status.HTTPSProxy, None: proxy.Status.NoProxy}
	return err
}

// readControllerConfig reads the CA of the clients of kubelets, which OpenShift rotates
// there, and those of registries.
func (r *reader) readControllerConfig(ctx context.Context) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(controllerConfigKind)
	found, err := r.get(ctx, controllerConfigKind.Kind, "", controllerConfigName, object)
	if !found {
		return err
	}
	what := controllerConfigKind.Kind + " " + controllerConfigName
	text, _, err := unstructured.NestedString(object.Object, "spec", "kubeAPIServerServingCAData")
	ca, decodeErr := base64.StdEncoding.DecodeString(text)
	if err != nil || decodeErr != nil {
		r.find("spec.kubeAPIServerServingCAData of "+what+" is not in base64", "correct it")
		return nil //nolint:nilerr // it is a finding
	}
	r.cluster.KubeletCA = ca
	var bundle strings.Builder
	for _, field := range []string{"imageRegistryBundleUserData", "imageRegistryBundleData"} {
		list, _, err := unstructured.NestedSlice(object.Object, "spec", field)
		for _, element := range list {
			entry, _ := element.(map[string]any)
			data, _, dataErr := unstructured.NestedString(entry, "data")
			pem, decodeErr := base64.StdEncoding.DecodeString(data)
			if dataErr != nil || decodeErr != nil {
				err = fmt.Errorf("an entry is not in base64")
				break
			}
			bundle.Write(pem)
			bundle.WriteByte('\n')
		}
		if err != nil {
			r.find(fmt.Sprintf("spec.%s of %s cannot be read (%v)", field, what, err), "correct it")
		}
	}
	r.cluster.TrustedCA = []byte(bundle.String())
	return nil
}

// readTrustedCA adds what else hosts trust. In OpenShift that is what the network operator
// writes there, which only matters with a proxy.
func (r *reader) readTrustedCA(ctx context.Context) error {
	if r.openShift && r.cluster.Proxy == (document.Proxy{}) {
		return nil
	}
	data, err := r.configMap(ctx, r.settings.Namespace, TrustedCAConfigMap)
	r.cluster.TrustedCA = append(r.cluster.TrustedCA, data[trustedCAKey]...)
	return err
}

// readMirrors reads the mirrors of registries, and their credentials where there are some.
func (r *reader) readMirrors(ctx context.Context) error {
	var digests configv1.ImageDigestMirrorSetList
	if _, err := r.list(ctx, "ImageDigestMirrorSets", &digests); err != nil {
		return err
	}
	var tags configv1.ImageTagMirrorSetList
	if _, err := r.list(ctx, "ImageTagMirrorSets", &tags); err != nil {
		return err
	}
	slices.SortFunc(digests.Items, func(a, b configv1.ImageDigestMirrorSet) int { return strings.Compare(a.Name, b.Name) })
	for i := range digests.Items {
		r.cluster.ImageDigestMirrors = append(r.cluster.ImageDigestMirrors, digests.Items[i].Spec.ImageDigestMirrors...)
	}
	slices.SortFunc(tags.Items, func(a, b configv1.ImageTagMirrorSet) int { return strings.Compare(a.Name, b.Name) })
	for i := range tags.Items {
		r.cluster.ImageTagMirrors = append(r.cluster.ImageTagMirrors, tags.Items[i].Spec.ImageTagMirrors...)
	}
	if len(r.cluster.ImageDigestMirrors)+len(r.cluster.ImageTagMirrors) == 0 {
		return nil
	}
	data, err := r.secret(ctx, pullSecretNamespace, pullSecretName)
	if err != nil || data == nil {
		return err
	}
	if r.cluster.PullSecret, err = document.ParsePullSecret(data[corev1.DockerConfigJsonKey]); err != nil {
		r.find(fmt.Sprintf("Secret %s/%s cannot be used (%v)", pullSecretNamespace, pullSecretName, err), "correct it")
	}
	return nil
}

// list reads all objects of a kind, and says whether the cluster has it.
func (r *reader) list(ctx context.Context, kinds string, list client.ObjectList) (bool, error) {
	return r.outcome(kinds, r.List(ctx, list))
}

// readExporter reads the certificate that metrics are served with. Until it exists,
// there are no metrics.
func (r *reader) readExporter(ctx context.Context) error {
	data, err := r.secret(ctx, r.settings.Namespace, ExporterSecret)
	r.cluster.ExporterCertificate = data[corev1.TLSCertKey]
	r.cluster.ExporterKey = data[corev1.TLSPrivateKeyKey]
	return err
}

// readNodeManager reads the credentials of the cloud node manager of Azure.
func (r *reader) readNodeManager(ctx context.Context) error {
	if r.cluster.Platform != configv1.AzurePlatformType {
		return nil
	}
	data, err := r.secret(ctx, r.settings.Namespace, NodeManagerSecret)
	if err != nil || data == nil {
		return err
	}
	credentials, err := document.TokenCredentialsOf(data)
	if err != nil {
		r.find(fmt.Sprintf("Secret %s/%s has no credentials (%s)", r.settings.Namespace, NodeManagerSecret, strings.ReplaceAll(err.Error(), "\n", ", ")), "delete it, so that it is recreated")
		return nil
	}
	r.cluster.NodeManager = &credentials
	return nil
}
