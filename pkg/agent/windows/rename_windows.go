// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// moveFile replaces what is at the target, and returns when that is on the disk. It waits a moment
// for those who have one of the files open, and not for a program that runs from the target.
func moveFile(from, to string) error { return replaceFile(from, to, time.Sleep) }

func replaceFile(from, to string, sleep func(time.Duration)) error {
	names, err := utf16Pointers(from, to)
	if err != nil {
		return err
	}
	move := func() error {
		return windows.MoveFileEx(names[0], names[1], windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
	}
	if err = move(); isInUse(err) && !programRuns(to) {
		err = patiently(sleep, isInUse, func() error {
			if replaceOpen(names[0], to) == nil {
				return nil
			}
			return move()
		})
	}
	if err != nil {
		return inUse(&os.LinkError{Op: "rename", Old: from, New: to, Err: err})
	}
	return nil
}

// replaceOpen replaces a file also while others have it open, if they let it be deleted: as on
// Unix, they keep the old one. MoveFileEx does not. Not every file system can do it.
func replaceOpen(from *uint16, to string) error {
	name, err := windows.UTF16FromString(to)
	if err != nil {
		return err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(from, windows.DELETE|windows.SYNCHRONIZE, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_WRITE_THROUGH, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h) //nolint:errcheck // what was renamed is on the disk
	// FILE_RENAME_INFO of winbase.h.
	var info struct {
		flags  uint32
		root   windows.Handle
		length uint32 // of the name, in bytes, without the terminating character
		name   [windows.MAX_LONG_PATH]uint16
	}
	info.flags = windows.FILE_RENAME_REPLACE_IF_EXISTS | windows.FILE_RENAME_POSIX_SEMANTICS | windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
	info.length = uint32(copy(info.name[:], name)-1) * 2
	return windows.SetFileInformationByHandle(h, windows.FileRenameInfoEx, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Offsetof(info.name))+info.length+2)
}

// programRuns reports whether a process runs from a file. Such a file can be renamed only.
func programRuns(path string) bool {
	list, err := (&windowsSystem{}).Processes()
	return err == nil && slices.ContainsFunc(list, func(p engine.Process) bool { return strings.EqualFold(p.Path, path) })
}
