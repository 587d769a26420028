// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"cmp"
	"context"
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// System is a host as programs on it change it.
type System interface {
	engine.System
	// Link makes a symbolic link, or has one that is there lead elsewhere.
	Link(path, target string) error
}

// Made is what WMCO and its daemon have left on a host that they have configured, and what the programs that they run there have: every
// file, link, service and setting, with the names, arguments and places that version 11 has.
type Made struct {
	// Node is the name of the Node, Address that of the host, and Server the URL of the API server. Empty addresses are made up.
	Node, Address, Server string
	// Platform is where the host runs: Azure and AWS have more. Empty: in no cloud.
	Platform configv1.PlatformType
	// KubeletVersion is what the kubelet reports.
	KubeletVersion string
	// Bootstrap is the kubeconfig that the kubelet gets its first certificate with.
	Bootstrap []byte
	// ServerCA verifies the API server, and ClientCA the clients of the kubelet, in PEM.
	ServerCA, ClientCA []byte
	// Trusted are authorities, in PEM, that the daemon has imported into the store of Windows.
	Trusted []byte
	// Proxy are variables of the machine that the daemon has set.
	Proxy map[string]string
}

// ProxyOfCluster is what a cluster with a proxy has on its hosts.
func ProxyOfCluster() map[string]string {
	return map[string]string{"HTTP_PROXY": "http://proxy.example.com:3128", "HTTPS_PROXY": "http://proxy.example.com:3128", "NO_PROXY": ".cluster.local,.svc,10.0.0.0/16,localhost"}
}

// Put puts it on a host that has none of it. Windows starts the daemon when it boots, and the daemon starts the other services.
func (m Made) Put(s System) error {
	m.Address, m.Server = cmp.Or(m.Address, "10.0.0.7"), cmp.Or(m.Server, "https://api-int.example.com:6443")
	for _, path := range made() {
		if err := s.MakeDirectory(path, config.AccessInherited); err != nil {
			return err
		}
	}
	files := m.files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := s.WriteFile(path, files[path], config.AccessInherited); err != nil {
			return err
		}
	}
	for path, target := range m.links() {
		if err := s.Link(path, target); err != nil {
			return err
		}
	}
	if err := m.putSettings(s); err != nil {
		return err
	}
	if err := m.putServices(s); err != nil {
		return err
	}
	// hybrid-overlay-node has made the networks.
	return s.MakeHNSEndpoint(context.Background(), config.HNSEndpoint{Name: endpoint, Network: networks[1]})
}

func (m Made) putSettings(s System) error {
	// The first two are from user data, or by hand: WMCO wants the ports open.
	for _, rule := range []config.FirewallRule{{Name: "ContainerLogsPort", Protocol: config.ProtocolTCP, Port: 10250}, {Name: "WindowsExporter", Protocol: config.ProtocolTCP, Port: 9182}} {
		if err := s.SetFirewallRule(rule); err != nil {
			return err
		}
	}
	if err := s.SetAntivirusExclusion(`C:\k\containerd\containerd.exe`, true); err != nil {
		return err
	}
	for name, value := range m.Proxy {
		if err := s.SetEnvironment(name, &value); err != nil {
			return err
		}
	}
	for block, rest := pem.Decode(m.Trusted); block != nil; block, rest = pem.Decode(rest) {
		if err := s.AddCertificate("Root", block.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (m Made) putServices(s System) error {
	for _, service := range m.services() {
		settings := config.ServiceSettings{CommandLine: m.commandLine(service), Description: tag + " " + service.Name, StartType: config.StartManual, Dependencies: service.Dependencies}
		var recovery *config.Recovery
		if service.Name == daemonName {
			// It means seconds, and writes them where Windows takes milliseconds.
			settings.StartType, recovery = config.StartAutomatic, &config.Recovery{ResetAfterSeconds: 300, RestartDelaysMilliseconds: []int64{10, 30, 60, 120}}
		}
		if err := s.CreateService(service.Name, settings, recovery); err != nil {
			return err
		}
		if err := s.StartService(service.Name); err != nil {
			return err
		}
	}
	return nil
}

// made are the directories of WMCO, and those of the programs that it runs, parents first.
func made() []string {
	var paths []string
	for _, path := range []string{
		`C:\Temp`, `C:\k\cni\config`, `C:\k\containerd\registries\registry.example.com`, `C:\k\etc\kubernetes\manifests`, `C:\k\tls\certs`, `C:\k\wicd-certs`,
		`C:\var\log\kubelet`, `C:\var\log\kube-proxy`, `C:\var\log\csi-proxy`, `C:\var\log\wicd`, `C:\var\log\hybrid-overlay`, `C:\var\log\containerd`, `C:\var\log\windows_exporter`,
		`C:\var\log\pods\default_app_6f4d2a\app`, `C:\var\log\containers`,
		`C:\var\lib\kubelet\pki`, `C:\var\lib\kubelet\plugins_registry`, `C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec`, `C:\var\lib\cni\networks\OVNKubernetesHybridOverlayNetwork`,
		`C:\ProgramData\containerd\root\io.containerd.metadata.v1.bolt`, `C:\ProgramData\containerd\state`,
	} {
		parts := strings.Split(path, `\`)
		for i := 2; i <= len(parts); i++ {
			if parent := strings.Join(parts[:i], `\`); !slices.Contains(paths, parent) {
				paths = append(paths, parent)
			}
		}
	}
	return paths
}
