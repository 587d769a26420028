// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"regexp"
	"slices"
)

// nativePrefix is what a path of a pending rename begins with: `\??\` of the kernel, after it
// "!" for a target that is replaced. Newer versions of Windows write "*" and a number before both,
// also beside entries of the older form.
var nativePrefix = regexp.MustCompile(`^(\*\d+)?!?\\\?\?\\`)

// removedAtBoot returns the paths that are removed at the next boot, of pairs as MoveFileEx
// writes them: a source in the form of the kernel, and a target, which is empty for a removal.
func removedAtBoot(pairs []string) []string {
	var paths []string
	for pair := range slices.Chunk(pairs, 2) {
		if path := nativePrefix.ReplaceAllString(pair[0], ""); path != "" && len(pair) == 2 && pair[1] == "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// replacedAtBoot reports whether a file gets another content or name at the next boot, which
// programs may wait for. Nothing waits for removals: the agent has those of what it replaced, and
// others like browsers and antivirus programs nearly always have some.
func replacedAtBoot(pairs []string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) == 2 && pair[0] != "" && pair[1] != "" {
			return true
		}
	}
	return false
}
