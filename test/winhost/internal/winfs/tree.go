// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Below returns a function for FS.Local that finds drive C: in the directory root of a
// Unix machine. Names are matched exactly where that is possible and otherwise without
// regard to case, as Windows finds them.
func Below(root string) func(clean string) (string, error) {
	return func(clean string) (string, error) {
		parts := strings.Split(strings.Trim(clean, "/"), "/")
		if !strings.EqualFold(parts[0], "C:") {
			return "", fmt.Errorf("%s: the system cannot find the drive specified: %w", clean, os.ErrNotExist)
		}
		local := root
		for _, name := range parts[1:] {
			local = filepath.Join(local, onDisk(local, name))
		}
		return local, nil
	}
}

// onDisk returns how name is spelled in dir, or name if there is nothing like it.
func onDisk(dir, name string) string {
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return name
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return name
}
