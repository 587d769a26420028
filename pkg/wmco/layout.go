// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// Directories of a host, as WMCO lays it out.
const (
	// KubernetesDir is where programs and their configuration are.
	KubernetesDir = `C:\k`
	// TempDir is where the scripts of WMCO are. We need none, and do not touch the
	// directory: others use it, too.
	TempDir = `C:\Temp`
	// LogDir is where all logs are.
	LogDir = `C:\var\log`
	// CNIDir is where the CNI plugins are.
	CNIDir = KubernetesDir + `\cni`
	// CNIConfigDir is where CNI is configured, and where hybrid-overlay-node keeps its certificates.
	CNIConfigDir = CNIDir + `\config`
	// CNIStateDir is where the CNI plugins keep the addresses that they assigned.
	CNIStateDir = `C:\var\lib\cni`
	// ContainerdDir is where containerd is.
	ContainerdDir = KubernetesDir + `\containerd`
	// RegistriesDir has a directory for each registry that is mirrored.
	RegistriesDir = ContainerdDir + `\registries`
	// TLSDir is where the exporter of metrics is configured.
	TLSDir = KubernetesDir + `\tls`
	// TLSCertsDir is where its certificate is.
	TLSCertsDir = TLSDir + `\certs`
	// ManifestsDir is where the kubelet looks for static pods.
	ManifestsDir = KubernetesDir + `\etc\kubernetes\manifests`
	// WICDCertsDir is where windows-instance-config-daemon keeps its certificates.
	WICDCertsDir = KubernetesDir + `\wicd-certs`
)

// Files of a host that are not programs, as WMCO lays it out.
const (
	KubeconfigPath             = KubernetesDir + `\kubeconfig`
	BootstrapKubeconfigPath    = KubernetesDir + `\bootstrap-kubeconfig`
	BootstrapCAPath            = KubernetesDir + `\bootstrap-ca.crt`
	KubeletConfigPath          = KubernetesDir + `\kubelet.conf`
	KubeletCAPath              = KubernetesDir + `\kubelet-ca.crt`
	KubeProxyConfigPath        = KubernetesDir + `\kube-proxy.conf`
	CredentialProviderPath     = KubernetesDir + `\credential-provider-config.yaml`
	ImportedCertificatesPath   = KubernetesDir + `\imported-certs.pem` // what WMCO's daemon has put into the store of Windows
	WICDKubeconfigPath         = KubernetesDir + `\wicd-kubeconfig`
	ContainerdConfigPath       = ContainerdDir + `\containerd_conf.toml`
	CNIConfigPath              = CNIConfigDir + `\cni.conf`
	ExporterConfigPath         = TLSDir + `\windows-exporter-webconfig.yaml`
	DefenderExclusionScript    = TempDir + `\windows-defender-exclusion.ps1`
	GCPHostnameScript          = TempDir + `\gcp-get-hostname.ps1`
	NetworkConfigurationScript = TempDir + `\network-conf.ps1`
)

// Services of a host.
const (
	ContainerdService       = "containerd"
	KubeletService          = "kubelet"
	WindowsExporterService  = "windows_exporter"
	HybridOverlayService    = "hybrid-overlay-node"
	CSIProxyService         = "csi-proxy"
	KubeProxyService        = "kube-proxy"
	CloudNodeManagerService = "cloud-node-manager"
	WICDService             = "windows-instance-config-daemon"
)

// Networks and endpoints of the Host Networking Service.
const (
	// BaseOverlayNetwork is removed before OverlayNetwork.
	BaseOverlayNetwork = "BaseOVNKubernetesHybridOverlayNetwork"
	// OverlayNetwork is the network of the pods of a host.
	OverlayNetwork = "OVNKubernetesHybridOverlayNetwork"
	// VIPEndpoint has the address that kube-proxy takes for the host.
	VIPEndpoint = "VIPEndpoint"
)

// SubnetAnnotation is the annotation of a Node with the subnet of its pods, which OVN
// Kubernetes gives it.
const SubnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"

// Directories returns those that WMCO creates on a host, in its order.
func Directories() []string {
	return []string{
		TempDir, CNIDir, CNIConfigDir, LogDir, LogDir + `\kubelet`, LogDir + `\csi-proxy`, LogDir + `\kube-proxy`,
		LogDir + `\wicd`, LogDir + `\hybrid-overlay`, ContainerdDir, LogDir + `\containerd`, LogDir + `\windows_exporter`,
		RegistriesDir, ManifestsDir, KubernetesDir, TLSDir, WICDCertsDir,
	}
}

// PayloadFile is a file that WMCO copies to hosts.
type PayloadFile struct {
	// Source is its path below the payload directory, for example cni/host-local.exe.
	Source string
	// Directory of the host that it is put in.
	Directory string
}

// Path returns where the file is on a host.
func (f PayloadFile) Path() string {
	return f.Directory + `\` + f.Source[strings.LastIndexByte(f.Source, '/')+1:]
}

// PayloadFiles returns the files that WMCO copies to a host of the platform, sorted
// by source. Its own daemon is not among them.
func PayloadFiles(platform configv1.PlatformType) []PayloadFile {
	files := []PayloadFile{
		{"cni/host-local.exe", CNIDir},
		{"cni/win-bridge.exe", CNIDir},
		{"cni/win-overlay.exe", CNIDir},
		{"containerd/containerd-shim-runhcs-v1.exe", ContainerdDir},
		{"containerd/containerd.exe", ContainerdDir},
		{"containerd/containerd_conf.toml", ContainerdDir},
		{"csi-proxy/csi-proxy.exe", KubernetesDir},
		{"generated/network-conf.ps1", TempDir},
		{"hybrid-overlay-node.exe", KubernetesDir},
		{"kube-node/kube-log-runner.exe", KubernetesDir},
		{"kube-node/kube-proxy.exe", KubernetesDir},
		{"kube-node/kubelet.exe", KubernetesDir},
		{"powershell/gcp-get-hostname.ps1", TempDir},
		{"powershell/hns.psm1", TempDir},
		{"powershell/windows-defender-exclusion.ps1", TempDir},
		{"windows-exporter/windows-exporter-webconfig.yaml", TLSDir},
		{"windows-exporter/windows_exporter.exe", KubernetesDir},
	}
	switch platform {
	case configv1.AWSPlatformType:
		files = append(files, PayloadFile{"ecr-credential-provider.exe", KubernetesDir})
	case configv1.AzurePlatformType:
		files = append(files, PayloadFile{"azure-cloud-node-manager.exe", KubernetesDir})
	}
	slices.SortFunc(files, func(a, b PayloadFile) int { return strings.Compare(a.Source, b.Source) })
	return files
}

// SplitPath splits a path of Windows after its last backslash.
func SplitPath(path string) (directory, file string) {
	i := strings.LastIndexByte(path, '\\') + 1
	return path[:i], path[i:]
}
