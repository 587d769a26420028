// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"path"
	"slices"
	"strings"
)

// Retention keeps the newest files of a kind and removes the others.
type Retention struct {
	// Pattern of the names of the files, as in [path.Match]. The names tell their age:
	// the newest is the last in alphabetical order.
	Pattern string `json:"pattern"`
	// Keep is how many of them stay, at least one.
	Keep int `json:"keep"`
}

// Excess returns those of the names in a directory that are to be removed, sorted.
func (r Retention) Excess(names []string) []string {
	var matching []string
	for _, name := range names {
		// Windows ignores case.
		if ok, err := path.Match(strings.ToLower(r.Pattern), strings.ToLower(name)); err == nil && ok {
			matching = append(matching, name)
		}
	}
	slices.Sort(matching)
	return matching[:max(0, len(matching)-max(r.Keep, 1))]
}
