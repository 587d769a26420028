// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import "github.com/openshift/windows-instance-api/pkg/desired/document"

// part is what of a host depends on inputs that a host can do without, and on nothing else. See decision 63.
type part int

const (
	// trustedAuthorities are those that a host trusts in addition to its own.
	trustedAuthorities part = iota
	// mirrorFiles say where images of mirrored registries are pulled from, and with which credentials.
	mirrorFiles
	// nodeManager completes Nodes on Azure, with credentials of its own.
	nodeManager
)

// parts say how each of them stays as it is.
var parts = map[part]struct {
	keep func(*document.Cluster)
	// says it, before what is wrong.
	says string
}{
	trustedAuthorities: {
		keep: func(c *document.Cluster) { c.KeepTrusted = true },
		says: "the host goes on to trust all authorities that it has, also those that were taken away since",
	},
	mirrorFiles: {
		keep: func(c *document.Cluster) { c.KeepMirrors = true },
		says: "the host goes on with the credentials and mirrors that it has for registries that are mirrored, whatever was changed in them since",
	},
	nodeManager: {
		keep: func(c *document.Cluster) { c.KeepNodeManager = true },
		says: "the cloud node manager of the host goes on with the credentials that it has, if it has some",
	},
}

// leftFinding is something wrong because of which a part of hosts stays as it is.
type leftFinding struct {
	Finding

	part part
}

// left is all of that.
type left []leftFinding

// findings are what is wrong.
func (l left) findings() (findings []Finding) {
	for _, f := range l {
		findings = append(findings, f.Finding)
	}
	return findings
}

// warnings say what is wrong, and what stays as it is because of it.
func (l left) warnings() (warnings []string) {
	for _, f := range l {
		warnings = append(warnings, parts[f.part].says+": "+f.String())
	}
	return warnings
}

// of tells what stays as it is on a host, and what goes: of one that WMCO has configured, and that was not updated since, the credentials of the
// cloud node manager go with the daemon of WMCO, which renewed them each hour.
func (l left) of(wmco bool) (stays, goes left) {
	for _, f := range l {
		if wmco && f.part == nodeManager {
			goes = append(goes, f)
		} else {
			stays = append(stays, f)
		}
	}
	return stays, goes
}

// apply has a configuration leave these parts as they are.
func (l left) apply(in *document.Inputs) {
	for _, f := range l {
		parts[f.part].keep(&in.Cluster)
	}
}
