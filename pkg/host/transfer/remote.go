// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Remote is what a transfer needs a program on the host for. Its methods are called concurrently. A lost
// connection is to be reported as an *[ssh.Error]: it is worth another try.
type Remote interface {
	// Inspect says what is at the given paths, in their order. It computes the digest of a
	// file only if its size is the given one.
	Inspect(ctx context.Context, target ssh.Target, files []Wanted) ([]State, error)
	// Commit makes a file that was uploaded the final one: it reads the temporary file, unpacking
	// it if Gzip says so, and compares size and digest of the content with those given.
	// If they are right, it makes sure that the content is on disk and gives it the final
	// name in one step, in place of what has that name; the temporary file is gone then.
	// If they are not, it does nothing and the error wraps [ErrDigest]. It wraps
	// [ErrDiskFull] if there is no room to unpack, and [ErrInUse] if what has the final
	// name cannot be replaced because it is in use.
	Commit(ctx context.Context, target ssh.Target, c Commit) error
}

// Wanted is a file that should be on the host.
type Wanted struct {
	// Path is its absolute path on the host.
	Path string
	// Size is that of the content that is wanted, in bytes.
	Size int64
}

// State is what is on the host in place of a file.
type State struct {
	// Exists says whether there is a file.
	Exists bool
	// Size is its size in bytes.
	Size int64
	// SHA256 is the digest of its content in lower-case hexadecimal; empty if the size is
	// not the wanted one.
	SHA256 string
	// Volume identifies the volume on which it is, or would be: files with the same Volume
	// share its space.
	Volume string
	// FreeBytes is how much can be written to the volume; negative if that is not known.
	FreeBytes int64
}

// Commit is a file that has been uploaded.
type Commit struct {
	// Temporary is where it is now, Path where it goes: absolute paths in one directory.
	Temporary, Path string
	// Size and SHA256 are those of the content, unpacked.
	Size   int64
	SHA256 string
	// Gzip says that Temporary is compressed.
	Gzip bool
}
