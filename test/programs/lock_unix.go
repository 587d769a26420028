// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package programs

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until nobody else has locked the file. It is free when the file is closed.
func lock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
