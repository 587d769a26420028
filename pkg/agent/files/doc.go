// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package files does what the agent does with files in the same way on every file system:
// it receives them under a temporary name, and copies the text of a log that a program
// writes to before it gives the room of that text back. What differs comes in as a [Disk].
//
// It knows no operating system, and must not import package windows.
package files

import "os"

// Disk is what differs between file systems.
type Disk struct {
	// Open opens a file that exists, for reading or also for writing, without
	// locking it: others can write to the file, rename it and remove it.
	Open func(path string, write bool) (*os.File, error)
	// Rename replaces the target, and returns when that is on the disk.
	Rename func(from, to string) error
	// Full adds [agent.ErrDiskFull] to what the system says of a volume without room.
	Full func(error) error
}
