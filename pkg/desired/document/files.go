// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"encoding/json"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// DefaultPauseImage is the image that holds the network of a pod: Microsoft's.
const DefaultPauseImage = "mcr.microsoft.com/oss/kubernetes/pause:3.9"

// containerdConfig returns the file containerd_conf.toml. Strings in single quotes
// have no escapes in TOML.
func containerdConfig(pauseImage string) string {
	return fmt.Sprintf(`version = 2
root = '%s\root'
state = '%s\state'

[grpc]
  address = '\\.\pipe\containerd-containerd'

[plugins]
  [plugins.'io.containerd.grpc.v1.cri']
    sandbox_image = '%s'
    max_concurrent_downloads = 3
    image_pull_progress_timeout = '30m0s'
    [plugins.'io.containerd.grpc.v1.cri'.containerd]
      snapshotter = 'windows'
      default_runtime_name = 'runhcs-wcow-process'
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runhcs-wcow-process]
        runtime_type = 'io.containerd.runhcs.v1'
    [plugins.'io.containerd.grpc.v1.cri'.cni]
      bin_dir = '%s'
      conf_dir = '%s'
      max_conf_num = 1
    [plugins.'io.containerd.grpc.v1.cri'.registry]
      config_path = '%s'
  [plugins.'io.containerd.nri.v1.nri']
    disable = true
`, containerdData, containerdData, pauseImage, wmco.CNIDir, wmco.CNIConfigDir, wmco.RegistriesDir)
}

// exporterConfig returns the file by which windows_exporter serves with TLS.
func exporterConfig() string {
	return fmt.Sprintf("tls_server_config:\n  cert_file: '%s'\n  key_file: '%s'\n", exporterCertPath, exporterKeyPath)
}

const (
	exporterCertPath = wmco.TLSCertsDir + `\tls.crt`
	exporterKeyPath  = wmco.TLSCertsDir + `\tls.key`
)

// object is a JSON object that is written out in place.
type object = map[string]any

// endpointPolicy returns a policy of the CNI plugin win-overlay.
func endpointPolicy(kind string, settings object) object {
	return object{"name": "EndpointPolicy", "value": object{"type": kind, "settings": settings}}
}

// cniConfig returns the file cni.conf. Its subnet and the address of the host are
// those of the network that hybrid-overlay-node creates.
func cniConfig(serviceCIDR string) (string, error) {
	return indented(object{
		"cniVersion": "0.2.0", "name": wmco.OverlayNetwork, "type": "win-overlay", "apiVersion": 2,
		"capabilities": object{"portMappings": true, "dns": true},
		"ipam":         object{"type": "host-local", "subnet": ref(variableHNSSubnet)},
		"policies": []object{
			// Services are not reached through NAT…
			endpointPolicy("OutBoundNAT", object{"exceptionList": []string{serviceCIDR}, "destinationPrefix": "", "needEncap": false}),
			// …but through the overlay.
			endpointPolicy("SDNRoute", object{"exceptionList": []string{}, "destinationPrefix": serviceCIDR, "needEncap": true}),
			endpointPolicy("ProviderAddress", object{"providerAddress": ref(variableHNSAddress)}),
		},
	})
}

// kubeProxyConfig returns the file kube-proxy.conf for a kube-proxy of that version.
func kubeProxyConfig(verbosity int, version string) (string, error) {
	o := object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":             "kernelspace",
		"clientConnection": object{"kubeconfig": wmco.KubeconfigPath},
		"hostnameOverride": ref(variableNodeName),
		"clusterCIDR":      ref(variableNodeSubnet),
		"winkernel":        object{"networkName": wmco.OverlayNetwork, "sourceVip": ref(variableSourceVIP), "enableDSR": true},
		"logging":          object{"verbosity": verbosity},
	}
	if gates := featureGates(version, "WinDSR", "WinOverlay"); gates != nil {
		o["featureGates"] = gates
	}
	return indented(o)
}

func indented(value object) (string, error) {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode a configuration: %w", err)
	}
	return string(encoded) + "\n", nil
}
