// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"bytes"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// copied are the files that WMCO copies to each host.
var copied = []string{
	`C:\Temp\gcp-get-hostname.ps1`, `C:\Temp\windows-defender-exclusion.ps1`, `C:\Temp\hns.psm1`, `C:\Temp\network-conf.ps1`,
	`C:\k\hybrid-overlay-node.exe`, `C:\k\windows_exporter.exe`, `C:\k\kube-proxy.exe`, `C:\k\kube-log-runner.exe`, `C:\k\csi-proxy.exe`, `C:\k\windows-instance-config-daemon.exe`,
	`C:\k\cni\win-bridge.exe`, `C:\k\cni\host-local.exe`, `C:\k\cni\win-overlay.exe`,
	`C:\k\containerd\containerd.exe`, `C:\k\containerd\containerd-shim-runhcs-v1.exe`,
}

const (
	// pair is a certificate with its key, as programs write both to one file.
	pair = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"

	containerdConfig = `version = 2
root = "C:\\ProgramData\\containerd\\root"
state = "C:\\ProgramData\\containerd\\state"
[grpc]
  address = "\\\\.\\pipe\\containerd-containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "mcr.microsoft.com/oss/kubernetes/pause:3.9"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "C:\\k\\cni"
  conf_dir = "C:\\k\\cni\\config"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "C:\\k\\containerd\\registries"
`
	exporterConfig = "tls_server_config:\n  cert_file: C:\\k\\tls\\certs\\tls.crt\n  key_file: C:\\k\\tls\\certs\\tls.key\n"
	hostsTOML      = "server = \"https://registry.example.com/v2\"\n\noverride_path = true\n\n[host.\"https://mirror.example.com/v2\"]\n  capabilities = [\"pull\"]\n  override_path = true\n"

	kubeletConfig = `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","rotateCertificates":true,"serverTLSBootstrap":true,` +
		`"authentication":{"x509":{"clientCAFile":"C:\\k\\kubelet-ca.crt"},"anonymous":{"enabled":false}},"clusterDomain":"cluster.local","clusterDNS":["172.30.0.10"],` +
		`"cgroupsPerQOS":false,"enforceNodeAllocatable":["none"],"maxPods":250,"kubeAPIQPS":50,"kubeAPIBurst":100,"serializeImagePulls":false,"runtimeRequestTimeout":"10m0s",` +
		`"containerLogMaxSize":"50Mi","enableSystemLogHandler":true,"enableSystemLogQuery":true,"featureGates":{"NodeLogQuery":true,"RotateKubeletServerCertificate":true},` +
		`"evictionHard":{"imagefs.available":"15%","nodefs.available":"10%"},"systemReserved":{"cpu":"500m","ephemeral-storage":"1Gi","memory":"2Gi"},` +
		`"containerRuntimeEndpoint":"npipe://./pipe/containerd-containerd","resolvConf":"","registerNode":true,"registerWithTaints":[{"key":"os","value":"Windows","effect":"NoSchedule"}]}`
	cniConfig = `{"cniVersion":"0.2.0","name":"OVNKubernetesHybridOverlayNetwork","type":"win-overlay","apiVersion":2,"capabilities":{"portMappings":true,"dns":true},` +
		`"ipam":{"type":"host-local","subnet":"10.132.0.0/24"},"policies":[{"name":"EndpointPolicy","value":{"type":"OutBoundNAT","settings":{"exceptionList":["172.30.0.0/16"]}}}]}`
)

// files are those of WMCO and its daemon, and of the programs that it runs. The kubelet makes its kubeconfig and its certificates itself.
func (m Made) files() map[string][]byte {
	bundle := bytes.Join([][]byte{[]byte("# registry.example.com"), m.Trusted, nil}, []byte("\n"))
	files := map[string][]byte{
		`C:\k\kubelet.exe`:                             fmt.Appendf(nil, "kubelet %s\n", m.KubeletVersion),
		`C:\k\bootstrap-kubeconfig`:                    m.Bootstrap,
		`C:\k\bootstrap-ca.crt`:                        m.ServerCA,
		`C:\k\kubelet-ca.crt`:                          m.ClientCA,
		`C:\k\kubelet.conf`:                            []byte(kubeletConfig),
		`C:\k\kube-proxy.conf`:                         fmt.Appendf(nil, `{"kind":"KubeProxyConfiguration","mode":"kernelspace","hostnameOverride":%q,"winkernel":{"sourceVip":"10.132.0.3"}}`, m.Node),
		`C:\k\ca-bundle.crt`:                           bundle,
		`C:\k\imported-certs.pem`:                      bundle,
		`C:\k\wicd-kubeconfig`:                         fmt.Appendf(nil, `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"local","cluster":{"server":%q}}],"users":[{"name":"wicd","user":{"client-certificate":"C:\\k\\wicd-certs\\wicd-client-current.pem"}}]}`, m.Server),
		`C:\k\containerd\containerd_conf.toml`:         []byte(containerdConfig),
		`C:\k\tls\windows-exporter-webconfig.yaml`:     []byte(exporterConfig),
		`C:\k\tls\certs\tls.crt`:                       []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		`C:\k\tls\certs\tls.key`:                       []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"),
		`C:\k\cni\config\cni.conf`:                     []byte(cniConfig),
		`C:\var\lib\kubelet\cpu_manager_state`:         []byte(`{"policyName":"none"}`),
		`C:\var\log\pods\default_app_6f4d2a\app\0.log`: []byte("2026-11-20T10:00:00Z stdout F started\n"),
		`C:\var\lib\cni\networks\OVNKubernetesHybridOverlayNetwork\10.132.0.5`:         []byte("6f4d2a\r\neth0"),
		`C:\var\lib\cni\networks\OVNKubernetesHybridOverlayNetwork\last_reserved_ip.0`: []byte("10.132.0.5"),
		`C:\ProgramData\containerd\root\io.containerd.metadata.v1.bolt\meta.db`:        []byte("bolt"),
	}
	programs := copied
	switch m.Platform {
	case configv1.AWSPlatformType:
		programs = append(slices.Clone(copied), `C:\k\ecr-credential-provider.exe`)
		files[`C:\k\credential-provider-config.yaml`] = []byte("kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n- name: ecr-credential-provider.exe\n")
	case configv1.AzurePlatformType:
		programs = append(slices.Clone(copied), `C:\k\azure-cloud-node-manager.exe`)
		files[`C:\k\cloud.conf`] = []byte(`{"cloud":"AzurePublicCloud"}`)
	default:
	}
	for _, path := range programs {
		files[path] = fmt.Appendf(nil, "%s of WMCO 11.0.0\n", path)
	}
	for _, at := range []string{"2026-11-20-09-00-00", "2026-11-20-09-50-00"} { // those of the daemon stay, and those of the network, but for two, do not
		files[`C:\k\wicd-certs\wicd-client-`+at+".pem"] = []byte(pair)
		files[`C:\k\cni\config\ovnkube-client-`+at+".pem"] = []byte(pair)
	}
	for _, log := range []string{`kubelet\kubelet`, `kube-proxy\kube-proxy`, `csi-proxy\csi-proxy`, `hybrid-overlay\hybrid-overlay`, `containerd\containerd`, `windows_exporter\windows_exporter`} {
		files[`C:\var\log\`+log+".log"] = []byte("I1120 10:00:00.000000    1234 main.go:1] started\n")
	}
	for _, severity := range []string{"INFO", "WARNING"} {
		files[m.daemonLog(severity)] = []byte("I1120 10:00:00.000000    1234 main.go:1] started\n")
	}
	return files
}

// daemonLog is where the library that the daemon logs with puts a log.
func (m Made) daemonLog(severity string) string {
	return `C:\var\log\wicd\` + daemonName + ".exe." + m.Node + `.NT AUTHORITY_SYSTEM.log.` + severity + ".20261120-100000.1234"
}

// links name the newest certificate and the newest log of a program, which libraries of it make.
func (m Made) links() map[string]string {
	return map[string]string{
		`C:\k\wicd-certs\wicd-client-current.pem`:          `C:\k\wicd-certs\wicd-client-2026-11-20-09-50-00.pem`,
		`C:\k\cni\config\ovnkube-client-current.pem`:       `C:\k\cni\config\ovnkube-client-2026-11-20-09-50-00.pem`,
		`C:\var\log\wicd\` + daemonName + ".exe.INFO":      m.daemonLog("INFO"),
		`C:\var\log\wicd\` + daemonName + ".exe.WARNING":   m.daemonLog("WARNING"),
		`C:\var\log\containers\app_default_app-6f4d2a.log`: `C:\var\log\pods\default_app_6f4d2a\app\0.log`,
	}
}
