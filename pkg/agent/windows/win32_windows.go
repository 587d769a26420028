// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
)

// utf16Pointers returns texts as Win32 takes them. A text with a NUL is an error.
func utf16Pointers(texts ...string) ([]*uint16, error) {
	var err error
	pointers := make([]*uint16, len(texts))
	for i, text := range texts {
		if pointers[i], err = windows.UTF16PtrFromString(text); err != nil {
			return nil, err
		}
	}
	return pointers, nil
}

// First sizes for [grow], in bytes: of the tables of the network, and of what the service
// control manager tells, which refuses more than 8 KiB.
const tableBytes, serviceBytes = 16 << 10, 1 << 10

// grow calls a function with a larger buffer until it is large enough; tooSmall is the error by
// which the function requests the size that it has set. The buffer begins with a T, which may
// point into the rest of it, so it consists of words.
// size is the first one; what is read may grow between two calls.
func grow[T any](size uint32, tooSmall error, call func(p *T, size *uint32) error) (*T, error) {
	for range 4 {
		buf := make([]uint64, max(size, 8)/8+1)
		size = uint32(len(buf) * 8)
		p := (*T)(unsafe.Pointer(&buf[0]))
		err := call(p, &size)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, tooSmall) {
			return nil, err
		}
	}
	return nil, tooSmall
}

// multiString reads a list of strings that ends with an empty one.
func multiString(p *uint16) []string {
	var list []string
	for p != nil && *p != 0 {
		s := windows.UTF16PtrToString(p)
		list = append(list, s)
		for *p != 0 {
			p = (*uint16)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p)))
		}
		p = (*uint16)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p)))
	}
	return list
}
