// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"os"
	"path/filepath"
	"strings"
)

// drive is a directory of this machine that is drive C of a host.
type drive string

// local is where a path of the host is on this machine. Windows tells no cases apart, so
// what is there in another case is meant.
func (d drive) local(path string) string {
	_, below, _ := strings.Cut(path, ":")
	local := string(d)
	for name := range strings.FieldsFuncSeq(below, func(c rune) bool { return c == '\\' || c == '/' }) {
		next := filepath.Join(local, name)
		if _, err := os.Lstat(next); err != nil {
			entries, _ := os.ReadDir(local) // what cannot be read has nothing in another case
			for _, e := range entries {
				if strings.EqualFold(e.Name(), name) {
					next = filepath.Join(local, e.Name())
				}
			}
		}
		local = next
	}
	return local
}

// read reads a file of the host.
func (d drive) read(path string) ([]byte, error) { return os.ReadFile(d.local(path)) }
