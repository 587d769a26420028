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
	return freeFiles(volume.Files, volume.Ffree), nil
}

// freeFiles is how many files may still be created on a volume that says that it has place for so many, free of them unused. Without
// a fixed number some file systems say 0 of 0, as Btrfs does, and some more than they have: CephFS has all ones for those that are unused.
func freeFiles(files, free uint64) int64 {
	if files == 0 || free > files {
		return math.MaxInt64
	}
	return int64(min(free, math.MaxInt64))
}
