// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const openFlags = os.O_RDONLY

// identify returns what stays the same when a file is renamed. NTFS keeps a
// sequence number within the file's index, so that it is not used again soon.
func identify(f *os.File, _ fs.FileInfo) (fileID, error) {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return fileID{}, fmt.Errorf("reading the identity of %s: %w", f.Name(), err)
	}
	return fileID{
		volume: uint64(info.VolumeSerialNumber),
		file:   uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
	}, nil
}

// fileStandardInfo is FILE_STANDARD_INFO of the Windows SDK.
type fileStandardInfo struct {
	AllocationSize int64
	EndOfFile      int64
	NumberOfLinks  uint32
	DeletePending  byte
	Directory      byte
}

// mustClose says whether holding a deleted file open keeps its name from being
// used again, as it does where deletion has not the semantics of POSIX.
func mustClose(f *os.File) bool {
	var info fileStandardInfo
	err := windows.GetFileInformationByHandleEx(windows.Handle(f.Fd()), windows.FileStandardInfo,
		(*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err == nil && info.DeletePending != 0
}
