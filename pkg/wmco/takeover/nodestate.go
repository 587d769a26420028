// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import "github.com/openshift/windows-instance-api/pkg/wmco"

// NodeState is the work left on a host, by VersionAnnotation of its Node.
type NodeState string

const (
	// NodeUnconfigured means that no version completed the configuration of the host.
	NodeUnconfigured NodeState = "Unconfigured"
	// NodeOutdated means that another version configured it.
	NodeOutdated NodeState = "Outdated"
	// NodeUpToDate means that the wanted version configured it.
	NodeUpToDate NodeState = "UpToDate"
)

// StateOfNode compares the annotations of a Node with the version that is wanted.
// An empty annotation requests a new configuration, so it counts as missing.
func StateOfNode(annotations map[string]string, version string) NodeState {
	switch have := annotations[wmco.VersionAnnotation]; have {
	case "":
		return NodeUnconfigured
	case version:
		return NodeUpToDate
	default:
		return NodeOutdated
	}
}
