// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sparse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func maybe(info fs.FileInfo) bool {
	const block = 512 // of stat(2), whatever the file system has
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks*block < st.Size
}

// firstData returns where there first is something other than a hole: 0 for a file that does
// not begin with one, and the size of a file that has nothing else.
func firstData(f *os.File, info fs.FileInfo) (int64, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var at int64
	var seekErr error
	// The offset of the file, which reading at a place does not use, is moved and put back.
	err = raw.Control(func(fd uintptr) {
		var before int64
		if before, seekErr = unix.Seek(int(fd), 0, unix.SEEK_CUR); seekErr != nil {
			return
		}
		at, seekErr = unix.Seek(int(fd), 0, unix.SEEK_DATA)
		if _, err := unix.Seek(int(fd), before, unix.SEEK_SET); seekErr == nil {
			seekErr = err
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(seekErr, unix.ENXIO):
		return info.Size(), nil
	case errors.Is(seekErr, unix.EINVAL): // the file system knows no holes
		return 0, nil
	}
	return at, seekErr
}

func release(f *os.File, end int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var punchErr error
	if err := raw.Control(func(fd uintptr) {
		punchErr = unix.Fallocate(int(fd), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, end)
	}); err != nil {
		return err
	}
	if errors.Is(punchErr, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ErrUnsupported, punchErr)
	}
	return punchErr
}
