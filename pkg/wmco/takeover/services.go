// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import (
	"slices"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// ServicesToStop returns the services that every host of WMCO has, in the order in
// which they are stopped: what depends on another one is before it. csi-proxy and
// cloud-node-manager, on which nothing depends, come from the services ConfigMap.
func ServicesToStop() []string {
	return []string{wmco.WindowsExporterService, wmco.KubeProxyService, wmco.HybridOverlayService, wmco.KubeletService, wmco.WICDService, wmco.ContainerdService}
}

// ServicesToRemove returns the names of the services that are removed from a host:
// those of the latest services ConfigMap, and those of the one that the host was
// configured by where that has others.
func ServicesToRemove(latest, own []string) []string {
	var names []string
	for _, name := range slices.Concat(latest, own) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
