// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"errors"
	"fmt"
)

// What can be wrong besides the connection, wrapped by an [Error].
var (
	// ErrDiskFull means that the files do not fit onto the host's disk.
	ErrDiskFull = errors.New("the host's disk is full")
	// ErrDigest means that what arrived on the host is not what was sent: its disk or its
	// memory cannot be trusted, or somebody else wrote to the file.
	ErrDigest = errors.New("the digest is wrong on the host")
	// ErrInUse means that a file cannot be replaced because it is in use, as the file of a
	// program that runs is on Windows.
	ErrInUse = errors.New("the file is in use on the host")
	// ErrSourceChanged means that the content that was read here is not that of the item.
	ErrSourceChanged = errors.New("the content does not have the size and digest that were announced")
	// ErrWrite means that the host refused to write, for a reason that it does not give.
	ErrWrite = errors.New("the host refused to write the file")
)

// Error is a failure to put a file on a host. A failure that concerns the connection wraps an
// *ssh.Error.
type Error struct {
	// Name and HostPath are those of the item.
	Name, HostPath string
	// Err is what went wrong.
	Err error
}

// Error names the file, both as we know it and on the host.
func (e *Error) Error() string {
	return fmt.Sprintf("sending %s to %s on the host: %v", e.Name, e.HostPath, e.Err)
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }
