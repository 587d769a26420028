// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import "github.com/openshift/windows-instance-api/pkg/wmco"

// NodeNames is where the names of the Nodes of hosts come from. known is false before the first snapshot, and while there is none.
func (s *Source) NodeNames() (from wmco.HostnameSource, known bool) {
	snapshot, err := s.latest()
	if snapshot == nil || err != nil {
		return "", false
	}
	return wmco.KubeletHostname(snapshot.common.Cluster.Platform), true
}
