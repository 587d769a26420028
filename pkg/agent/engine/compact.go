// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"maps"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// compact makes one record of each directory that adoptions record as one, and that those of earlier releases have recorded file by file: a
// host can have more of them than servers take items of a plan, so that it would never be updated.
func (inv *inventory) compact() {
	for _, path := range api.FormerTrees() {
		if _, recorded := inv.Directories[fold(path)]; !recorded {
			continue
		}
		maps.DeleteFunc(inv.Files, func(_ string, r fileRecord) bool { return config.Below(r.Path, path) })
		maps.DeleteFunc(inv.Directories, func(_ string, r directoryRecord) bool { return config.Below(r.Path, path) })
		maps.DeleteFunc(inv.Generated, func(_, link string) bool { return config.Below(link, path) })
		inv.Generated[fold(path)] = path
	}
}
