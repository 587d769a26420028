// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sparse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// zeroData is FILE_ZERO_DATA_INFORMATION of the Windows SDK.
type zeroData struct{ fileOffset, beyondFinalZero int64 }

// allocatedRange is FILE_ALLOCATED_RANGE_BUFFER of the Windows SDK.
type allocatedRange struct{ fileOffset, length int64 }

// control sends a control code to the file system.
func control(f *os.File, code uint32, in, out unsafe.Pointer, inSize, outSize uintptr) (n uint32, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var controlErr error
	if err := raw.Control(func(fd uintptr) {
		controlErr = windows.DeviceIoControl(windows.Handle(fd), code, (*byte)(in), uint32(inSize), (*byte)(out), uint32(outSize), &n, nil)
	}); err != nil {
		return 0, err
	}
	return n, controlErr
}

func maybe(info fs.FileInfo) bool {
	attributes, ok := info.Sys().(*syscall.Win32FileAttributeData)
	return ok && attributes.FileAttributes&windows.FILE_ATTRIBUTE_SPARSE_FILE != 0
}

// firstData returns where there first is something other than a hole: 0 for a file that does
// not begin with one, and the size of a file that has nothing else.
func firstData(f *os.File, info fs.FileInfo) (int64, error) {
	if !maybe(info) {
		return 0, nil
	}
	whole, first := allocatedRange{length: info.Size()}, allocatedRange{}
	n, err := control(f, windows.FSCTL_QUERY_ALLOCATED_RANGES, unsafe.Pointer(&whole), unsafe.Pointer(&first), unsafe.Sizeof(whole), unsafe.Sizeof(first))
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) { // there are more ranges than the first
		return 0, err
	}
	if uintptr(n) < unsafe.Sizeof(first) {
		return info.Size(), nil
	}
	return first.fileOffset, nil
}

func release(f *os.File, end int64) error {
	if _, err := control(f, windows.FSCTL_SET_SPARSE, nil, nil, 0, 0); err != nil {
		return unsupported(err)
	}
	zeros := zeroData{beyondFinalZero: end}
	_, err := control(f, windows.FSCTL_SET_ZERO_DATA, unsafe.Pointer(&zeros), nil, unsafe.Sizeof(zeros), 0)
	return unsupported(err)
}

// unsupported adds [ErrUnsupported] to what file systems without holes say.
func unsupported(err error) error {
	if errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
