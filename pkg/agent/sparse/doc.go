// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package sparse removes text from the beginning of a file that another program keeps
// writing to.
//
// Windows renames no file that a program has open without saying that it may be renamed,
// which no program written in Go does. Truncating such a file loses what is written between
// the last read and the truncation, and a program that does not append leaves zeros in
// front of what it writes next. But the beginning of a file can be released to the file
// system without a change of its size: writes in between land where they would have landed. The bytes read as zeros from then on and take no room. The text begins after
// them, where [TextStart] finds it.
//
// The package imports the standard library and golang.org/x/sys only.
package sparse

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrUnsupported says that a file system cannot release a part of a file.
var ErrUnsupported = errors.New("the file system cannot release the beginning of a file")

// Unit is the greatest granularity in which file systems release parts of a file. Less than
// that at the beginning of a file is not released, as it could not be distinguished from
// zeros that were written.
const Unit = 64 << 10

// maxZeros bounds the zeros behind what was released, which are less than a unit.
const maxZeros = 2 * Unit

// TextStart returns where the text of a file begins: 0, or the end of what was released.
// It may move while the file is used, and always forward.
func TextStart(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	start, err := firstData(f, info)
	if err != nil {
		return 0, fmt.Errorf("finding the first data of %s: %w", f.Name(), err)
	}
	if start == 0 {
		return 0, nil // the first byte may be a zero nonetheless, as of UTF-16
	}
	buf := make([]byte, 1)
	for begin := start; start < info.Size() && start-begin < maxZeros; {
		n, err := f.ReadAt(buf, start)
		for _, c := range buf[:n] {
			if c != 0 {
				return start, nil
			}
			start++
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if len(buf) == 1 { // it is rarely more than one byte
			buf = make([]byte, 4<<10)
		}
	}
	return min(start, info.Size()), nil
}

// Maybe says whether a part of a file may have been released. It is cheap, and says no for
// nearly all complete files.
func Maybe(info fs.FileInfo) bool { return maybe(info) }

// Release releases what is before end, which is [Unit] or more. The file is open for
// reading and writing. When Release returns, the file system has noted it, but may not have
// written it down.
func Release(f *os.File, end int64) error {
	if end < Unit {
		return fmt.Errorf("%d bytes at the beginning of %s are too few to be released", end, f.Name())
	}
	if err := release(f, end); err != nil {
		return fmt.Errorf("releasing the first %d bytes of %s: %w", end, f.Name(), err)
	}
	return nil
}
