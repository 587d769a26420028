// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package programs

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock waits until nobody else has locked the file. It is free when the file is closed.
func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}
