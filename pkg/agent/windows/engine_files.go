// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// temporarySuffix is that of a file that is being written. It is in the directory of the
// file, whose access it inherits. A crash can leave one behind; it is removed with the file.
const temporarySuffix = ".windows-node-agent.tmp"

func fileKind(mode fs.FileMode) engine.FileKind {
	switch {
	case mode.IsRegular():
		return engine.FileRegular
	case mode.IsDir():
		return engine.FileDirectory
	default:
		return engine.FileOther
	}
}

// directoryNames lists a directory without what is being written.
func directoryNames(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), temporarySuffix) {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	return list, nil
}
