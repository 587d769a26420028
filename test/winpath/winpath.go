// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package winpath finds the files of a stand-in's drive C:, which is a directory of this machine. It must import nothing of this project.
package winpath

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Local returns where a path below the root of a drive is, with slashes of either kind, in the directory of this machine that is the drive. Windows
// tells no cases apart: what exists in another case is meant, unless something exists in this one.
func Local(drive, below string) string {
	names := strings.FieldsFunc(below, func(c rune) bool { return c == '\\' || c == '/' })
	if exact := filepath.Join(drive, filepath.Join(names...)); exists(exact) { // as nearly always
		return exact
	}
	local := drive
	for n, name := range names {
		next := filepath.Join(local, name)
		if !exists(next) {
			entries := namesIn(local)
			at := slices.IndexFunc(entries, func(entry string) bool { return strings.EqualFold(entry, name) })
			if at < 0 {
				return filepath.Join(local, filepath.Join(names[n:]...))
			}
			next = filepath.Join(local, entries[at])
		}
		local = next
	}
	return local
}

// namesIn returns what is in a directory, in no order. What cannot be read has nothing.
func namesIn(directory string) []string {
	d, err := os.Open(directory)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
