// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import "github.com/openshift/windows-instance-api/pkg/agent/api"

// Collect adds the facts that read returns, also with an error, which is listed under area.
func Collect[T any](f *api.Facts, area string, facts *T, read func() (T, error)) {
	f.Collect(area, func() (err error) {
		*facts, err = read()
		return err
	})
}

// wicdService is the service of the Windows Machine Config Operator that configures its hosts.
const wicdService = "windows-instance-config-daemon"

// ServicesOfInterest are the services that Facts reports when they exist.
func ServicesOfInterest() []string {
	return []string{
		"containerd", "kubelet", "kube-proxy", "hybrid-overlay-node", "csi-proxy",
		"windows_exporter", wicdService, "cloud-node-manager",
		"windows-node-agent", "sshd", "docker", "vmcompute", "hns", "WinRM", "W32Time", "wuauserv",
	}
}

// PortsOfInterest are the TCP ports whose listeners Facts reports: SSH,
// Docker, Remote Desktop, WinRM, windows_exporter, the kubelet (healthz, API,
// read-only) and kube-proxy.
func PortsOfInterest() []int {
	return []int{22, 2375, 3389, 5985, 5986, 9182, 10248, 10249, 10250, 10255, 10256}
}
