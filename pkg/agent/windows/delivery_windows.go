// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
)

// disk is how files are opened, renamed and refused on Windows.
var disk = files.Disk{Open: openShared, Rename: moveFile, Full: diskFull}

// diskFull adds [agent.ErrDiskFull] to what Windows says of a volume without room.
func diskFull(err error) error {
	for _, code := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED} {
		if errors.Is(err, code) {
			return fmt.Errorf("%w: %w", agent.ErrDiskFull, err)
		}
	}
	return err
}

// Sync implements [agent.System]. FlushFileBuffers needs a handle that may write.
func (s *windowsSystem) Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return inUse(err)
	}
	return diskFull(errors.Join(f.Sync(), f.Close()))
}

// Volume implements [engine.FileSystem].
func (s *windowsSystem) Volume(path string) (name string, freeBytes int64, err error) {
	name = filepath.VolumeName(path)
	root, err := windows.UTF16PtrFromString(name + `\`)
	if err != nil {
		return "", 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(root, &free, nil, nil); err != nil {
		return "", 0, fmt.Errorf("reading the free space of %s: %w", name, err)
	}
	return name, int64(min(free, 1<<62)), nil
}
