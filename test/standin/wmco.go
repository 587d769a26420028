// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package standin

import (
	"encoding/json"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// WMCOHost is what WMCO and its daemon leave on a host that they have configured: every file, service and setting, with the
// names, arguments and places that version 11 has.
type WMCOHost struct {
	// Bootstrap is the kubeconfig that the kubelet gets its first certificate with.
	Bootstrap []byte
	// ServerCA verifies the API server, and ClientCA the clients of the kubelet, in PEM.
	ServerCA, ClientCA []byte
	// Node is the name of the node, and Server the URL of the API server.
	Node, Server string
}

// Put puts it on a host that has none of it. Windows starts the daemon when it boots, and the daemon starts the other services.
func (w WMCOHost) Put(s engine.System) error {
	for _, path := range append([]string{`C:\k`, `C:\var`, `C:\var\lib`, `C:\var\lib\kubelet`, `C:\var\lib\kubelet\pki`, wmco.CNIStateDir, `C:\ProgramData`, `C:\ProgramData\containerd`, `C:\k\etc`, `C:\k\etc\kubernetes`}, wmcoDirectories()...) {
		if err := s.MakeDirectory(path, config.AccessInherited); err != nil {
			return err
		}
	}
	files, err := w.files()
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := s.WriteFile(path, content, config.AccessInherited); err != nil {
			return err
		}
	}
	for _, rule := range []config.FirewallRule{{Name: "ContainerLogsPort", Protocol: config.ProtocolTCP, Port: 10250}, {Name: "WindowsExporter", Protocol: config.ProtocolTCP, Port: 9182}} {
		if err := s.SetFirewallRule(rule); err != nil {
			return err
		}
	}
	if err := s.SetAntivirusExclusion(wmco.ContainerdDir+`\containerd.exe`, true); err != nil {
		return err
	}
	for _, service := range w.services() {
		if service.start == "" {
			service.start = config.StartManual
		}
		settings := config.ServiceSettings{CommandLine: service.command, Description: "OpenShift managed " + service.name, StartType: service.start, Dependencies: service.dependencies}
		if err := s.CreateService(service.name, settings, service.recovery); err != nil {
			return err
		}
		if err := s.StartService(service.name); err != nil {
			return err
		}
	}
	return nil
}

// wmcoDirectories are those that WMCO makes, parents first.
func wmcoDirectories() []string {
	var paths []string
	for _, path := range append(wmco.Directories(), wmco.TLSCertsDir, wmco.RegistriesDir+`\registry.example.com`) {
		parts := strings.Split(path, `\`)
		for i := 2; i <= len(parts); i++ {
			paths = append(paths, strings.Join(parts[:i], `\`))
		}
	}
	return paths
}

func (w WMCOHost) files() (map[string][]byte, error) {
	files := map[string][]byte{
		wmco.KubernetesDir + `\windows-instance-config-daemon.exe`:    []byte("wicd 11.0.0\n"),
		wmco.BootstrapKubeconfigPath:                                  w.Bootstrap,
		wmco.BootstrapCAPath:                                          w.ServerCA,
		wmco.KubeletCAPath:                                            w.ClientCA,
		wmco.WICDKubeconfigPath:                                       []byte("apiVersion: v1\nkind: Config\n"),
		wmco.WICDCertsDir + `\wicd-client-current.pem`:                []byte("a certificate and its key\n"),
		wmco.KubernetesDir + `\ca-bundle.crt`:                         w.ServerCA,
		wmco.TLSCertsDir + `\tls.crt`:                                 []byte("a certificate\n"),
		wmco.TLSCertsDir + `\tls.key`:                                 []byte("its key\n"),
		wmco.RegistriesDir + `\registry.example.com\hosts.toml`:       []byte("server = \"https://registry.example.com/v2\"\n"),
		wmco.CNIConfigPath:                                            []byte(`{"cniVersion":"0.2.0","type":"win-overlay","name":"OVNKubernetesHybridOverlayNetwork"}` + "\n"),
		wmco.KubeProxyConfigPath:                                      []byte("kind: KubeProxyConfiguration\n"),
		wmco.LogDir + `\wicd\windows-instance-config-daemon.exe.INFO`: []byte("a line\n"),
	}
	for _, f := range wmco.PayloadFiles(configv1.NonePlatformType) {
		files[f.Path()] = fmt.Appendf(nil, "%s of WMCO 11.0.0\n", f.Source)
	}
	files[wmco.KubernetesDir+`\kubelet.exe`] = fmt.Appendf(nil, "kubelet %s\n", Version)
	settings, err := json.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"rotateCertificates": true, "serverTLSBootstrap": true, "clusterDomain": "cluster.local", "maxPods": 250,
		"authentication":     map[string]any{"x509": map[string]any{"clientCAFile": wmco.KubeletCAPath}, "anonymous": map[string]any{"enabled": false}},
		"registerWithTaints": []map[string]any{{"key": "os", "value": "Windows", "effect": "NoSchedule"}},
	})
	files[wmco.KubeletConfigPath] = settings
	return files, err
}

type wmcoService struct {
	name, command string
	start         config.StartType // empty: manual
	dependencies  []string
	recovery      *config.Recovery
}

// services are those of a host, in the order in which they start.
func (w WMCOHost) services() []wmcoService {
	logged := func(name string) string {
		return `C:\k\kube-log-runner.exe -log-file=C:\var\log\` + name + `\` + name + `.log C:\k\` + name + `.exe `
	}
	return []wmcoService{
		{name: wmco.ContainerdService, command: `C:\k\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml --log-file C:\var\log\containerd\containerd.log --run-service --log-level info`},
		{name: wmco.KubeletService, dependencies: []string{wmco.ContainerdService}, command: logged("kubelet") + `--config=C:\k\kubelet.conf --bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig --kubeconfig=C:\k\kubeconfig ` +
			`--cert-dir=c:\var\lib\kubelet\pki\ --windows-service --node-labels=node.openshift.io/os_id=Windows --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS --v=2`},
		{name: wmco.WindowsExporterService, command: `C:\k\windows_exporter.exe --collectors.enabled cpu,logical_disk,net,os,service,system,container,memory,cpu_info --web.config.file C:\k\tls\windows-exporter-webconfig.yaml ` +
			`--log.level info --log.file C:\var\log\windows_exporter\windows_exporter.log`},
		{name: wmco.HybridOverlayService, dependencies: []string{wmco.KubeletService}, command: `C:\k\hybrid-overlay-node.exe --node ` + w.Node + ` --bootstrap-kubeconfig=C:\k\kubeconfig --cert-dir=C:\k\cni\config --cert-duration=24h --windows-service ` +
			`--logfile C:\var\log\hybrid-overlay\hybrid-overlay.log --k8s-apiserver=` + w.Server + ` --k8s-cacert C:\k\bootstrap-ca.crt`},
		{name: wmco.CSIProxyService, command: `C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false -windows-service --v=2`},
		{name: wmco.KubeProxyService, dependencies: []string{wmco.HybridOverlayService}, command: logged("kube-proxy") + `--config C:\k\kube-proxy.conf --windows-service`},
		{name: wmco.WICDService, command: `C:\k\windows-instance-config-daemon.exe controller --windows-service --log-dir C:\var\log\wicd --namespace openshift-windows-machine-config-operator --kubeconfig C:\k\wicd-kubeconfig ` +
			`--cert-dir C:\k\wicd-certs --cert-duration 1h --ca-bundle C:\k\ca-bundle.crt`,
			start: config.StartAutomatic, recovery: &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10, 30, 60, 120}}},
	}
}
