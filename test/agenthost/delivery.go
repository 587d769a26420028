// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
)

var _ agent.System = (*System)(nil)

// disk is how files are opened, renamed and refused on Unix.
var disk = files.Disk{Open: openShared, Rename: renameFile, Full: diskFull}

// diskFull adds [agent.ErrDiskFull] to what Unix says of a volume without room.
func diskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", agent.ErrDiskFull, err)
	}
	return err
}

// Create implements [agent.System].
func (s *System) Create(path string) (agent.ReceivedFile, error) {
	return disk.Create(s.local(path))
}

// Sync implements [agent.System].
func (s *System) Sync(path string) error {
	f, err := os.Open(s.local(path))
	if err != nil {
		return err
	}
	return diskFull(errors.Join(f.Sync(), f.Close()))
}

// Volume implements [engine.FileSystem]. The only drive is C.
func (s *System) Volume(string) (name string, freeBytes int64, err error) {
	var st syscall.Statfs_t
	err = syscall.Statfs(s.drive, &st)
	if errors.Is(err, syscall.ENOENT) { // nothing was written to it yet
		err = syscall.Statfs(filepath.Dir(s.drive), &st)
	}
	if err != nil {
		return "", 0, fmt.Errorf("reading the free space of drive C: %w", err)
	}
	return "C:", int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}
