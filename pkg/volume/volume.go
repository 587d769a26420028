// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package volume says how much space a volume has.
//
// It must not import any other package of this module.
package volume

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Free is how many bytes of the volume with a directory this process may still use.
func Free(dir string) (int64, error) {
	var volume unix.Statfs_t
	if err := unix.Statfs(dir, &volume); err != nil {
		return 0, fmt.Errorf("reading how much space is free in %s: %w", dir, err)
	}
	return int64(volume.Bavail) * int64(volume.Bsize), nil //nolint:unconvert // it has another type on s390x
}

// FreeFiles is how many files may still be created on the volume with a directory: [math.MaxInt64] if it has no fixed number.
func FreeFiles(dir string) (int64, error) {
	var volume unix.Statfs_t
	if err := unix.Statfs(dir, &volume); err != nil {
		return 0, fmt.Errorf("reading how many files may be created in %s: %w", dir, err)
	}
	if volume.Files == 0 {
		return math.MaxInt64, nil
	}
	return int64(volume.Ffree), nil
}
