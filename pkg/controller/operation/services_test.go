// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestServicesOfNodes: hosts report each service that a node may have, and after a restart is looked at each.
func TestServicesOfNodes(t *testing.T) {
	for _, name := range append(wmco.Services(), wmco.WICDService) {
		if !slices.Contains(essential, name) && !slices.Contains(servicesOfNode, name) {
			t.Errorf("nobody looks after service %s when a host was restarted", name)
		}
		if !slices.Contains(agent.ServicesOfInterest(), name) {
			t.Errorf("hosts do not report service %s", name)
		}
	}
}
