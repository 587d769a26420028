// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package logs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep the opening of a named pipe from waiting for a writer.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// identify returns what stays the same when a file is renamed.
func identify(_ *os.File, info fs.FileInfo) (fileID, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, fmt.Errorf("%s: the system reports no inode number", info.Name())
	}
	return fileID{volume: uint64(st.Dev), file: st.Ino}, nil //nolint:unconvert // signed on some systems
}

// mustClose says whether holding a deleted file open keeps its name from being
// used again. Not on Unix.
func mustClose(*os.File) bool { return false }
