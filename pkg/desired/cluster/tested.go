// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// The minor versions of API servers that the tests of this release run with: the newest is that of the libraries of Kubernetes, and the
// other one is emulated. OpenShift is not asked for its own version: each of its minor versions has one of Kubernetes, whose API server
// is what an upgrade replaces first.
var (
	OldestTested = utilversion.MajorMinor(1, 36)
	NewestTested = utilversion.MajorMinor(1, 37)
)

// Untested says that this release was not tested with API servers of that version, and what to do about it. Hosts are configured all the
// same. Empty: it was, or the version is not known.
func Untested(servers Servers) string {
	text := func(than, remedy string) string {
		return fmt.Sprintf("the API server is of Kubernetes %s, %s than those that this release was tested with (%s to %s): hosts are configured all the same; %s",
			minor(servers.Lowest), than, OldestTested, NewestTested, remedy)
	}
	switch {
	case newer(servers.Lowest, NewestTested):
		return text("newer", "install a newer release of this project")
	case newer(OldestTested, servers.Lowest):
		return text("older", "upgrade the cluster, or use an older release of this project")
	}
	return ""
}
