// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// removedAtBoot returns the paths that are removed at the next boot, of pairs as MoveFileEx
// writes them: a source in the form of the kernel, and a target, which is empty for a removal.
func removedAtBoot(pairs []string) []string {
	var paths []string
	for pair := range slices.Chunk(pairs, 2) {
		if path := strings.TrimPrefix(pair[0], `\??\`); path != "" && len(pair) == 2 && pair[1] == "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// othersAtBoot reports whether anything else happens at the next boot than that files go which
// the agent has replaced or removed: nothing waits for those.
func othersAtBoot(pairs []string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		removed := removedAtBoot(pair)
		if pair[0] != "" && (len(removed) == 0 || !config.Below(removed[0], api.Root)) {
			return true
		}
	}
	return false
}
