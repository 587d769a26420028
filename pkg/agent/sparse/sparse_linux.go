// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sparse

import (
	"errors"
	"fmt"
	"io"
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
	// The offset of the file, which ReadAt does not use, is moved and restored.
	before, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	at, err := f.Seek(0, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		at, err = info.Size(), nil
	case errors.Is(err, unix.EINVAL): // the file system knows no holes
		at, err = 0, nil
	}
	if _, restoreErr := f.Seek(before, io.SeekStart); err == nil {
		err = restoreErr
	}
	return at, err
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
