// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Remote does what needs a program on the host. Its methods are called concurrently. A lost
// connection must be reported as an *[ssh.Error]: it is worth another try.
type Remote interface {
	// Inspect returns the states of files, in their order. It computes the digest of a
	// file only if its size is the given one.
	Inspect(ctx context.Context, target ssh.Target, files []api.WantedFile) ([]api.FileState, error)
	// Commit makes a file that was uploaded the final one: it reads the temporary file, unpacking
	// it if Gzip says so, and compares size and digest of the content with those given.
	// If they are right, it makes sure that the content is on disk and gives it the final
	// name in one step, in place of what has that name; the temporary file is gone then.
	// If they are not, it does nothing and the error wraps [ErrDigest]. It wraps
	// [ErrDiskFull] if there is no room to unpack, and [ErrInUse] if what has the final
	// name cannot be replaced because it is in use.
	Commit(ctx context.Context, target ssh.Target, request api.CommitRequest) error
}
