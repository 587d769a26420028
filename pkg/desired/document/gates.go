// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// withoutGates is the release from whose programs on no feature gate is set: all that hosts need are on by default there, and those that are
// locked are going to be removed (pkg/features of Kubernetes; NodeLogQuery in 1.39). A program does not start with a gate that it does
// not know. Hosts with programs of earlier releases keep the configuration that they have.
var withoutGates = utilversion.MajorMinor(1, 38)

// featureGates returns the gates to set for a program of that version. Nil: none. One whose version says nothing gets all.
func featureGates(version string, names ...string) map[string]bool {
	if v, err := utilversion.ParseGeneric(version); err == nil && v.AtLeast(withoutGates) {
		return nil
	}
	gates := make(map[string]bool, len(names))
	for _, name := range names {
		gates[name] = true
	}
	return gates
}

// version returns the version of the program that is at path on hosts. Empty: the payload does not say it.
func (p Payload) version(path string) string {
	for i := range p.Files {
		if p.Files[i].Path == path {
			return p.Files[i].Version
		}
	}
	return ""
}
