// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package files

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// TemporarySuffix is that of a file that is being written. It is in the directory of the
// file, whose access it inherits. A crash can leave one behind; it is removed with the file.
const TemporarySuffix = ".windows-node-agent.tmp"

// Kind returns the kind of a file.
func Kind(mode fs.FileMode) engine.FileKind {
	switch {
	case mode.IsRegular():
		return engine.FileRegular
	case mode.IsDir():
		return engine.FileDirectory
	default:
		return engine.FileOther
	}
}

// Names lists a directory without temporary files.
func Names(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), TemporarySuffix) {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	return list, nil
}
