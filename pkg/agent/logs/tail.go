// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"errors"
	"io"
)

const (
	tailBlock = 64 << 10
	// maxTailWindow bounds what is kept in memory while records are counted
	// from the end. Beyond it the file is read from its beginning.
	maxTailWindow = 64 << 20
	// untimedWindow without a single time in it makes a file one without times.
	untimedWindow = 1 << 20
)

// lastLines finds the beginning of the last n lines within the first size bytes of
// a file, reading backwards. A last line without end counts. It also returns how
// many lines there are from there on, which is less than n when there are no more.
func lastLines(seg *segment, size, n int64) (off, found int64, err error) {
	if !seg.decideEncoding(true) || size == 0 {
		return 0, 0, nil
	}
	enc := seg.enc
	unit := int64(enc.unit())
	size -= size % unit
	first := int64(bomLen(seg.head))
	if size <= first {
		return 0, 0, nil
	}
	if n <= 0 {
		return size, 0, nil
	}
	buf := make([]byte, tailBlock)
	// found counts the ends of lines that were seen; the one at the very end of
	// the text ends the last line and is not before another.
	for end := size; end > 0; {
		start := max(0, end-tailBlock)
		b := buf[:end-start]
		if err := readFull(seg, b, start); err != nil {
			return 0, 0, err
		}
		for to := len(b); ; {
			nl := enc.lastLineEnd(b[:to])
			if nl == 0 {
				break
			}
			at := start + int64(nl)
			if at < size {
				if found++; found == n {
					return at, found, nil
				}
			}
			to = nl - int(unit)
		}
		end = start
	}
	return 0, found + 1, nil
}

// lastRecords is lastLines for records: lines with a time and what continues them.
// It returns 0 rather than to keep more than maxTailWindow in memory.
func lastRecords(seg *segment, size, n int64, c timeContext) (off, found int64, err error) {
	if !seg.decideEncoding(true) || size == 0 {
		return 0, 0, nil
	}
	enc := seg.enc
	size -= size % int64(enc.unit())
	var text []byte
	for window := int64(tailBlock); ; window *= 4 {
		start := max(0, size-window)
		raw := make([]byte, size-start)
		if err := readFull(seg, raw, start); err != nil {
			return 0, 0, err
		}
		at := start
		if start > 0 {
			skip := enc.lineEnd(raw)
			if skip < 0 {
				skip = len(raw)
			}
			raw, at = raw[skip:], at+int64(skip)
		} else {
			bom := min(bomLen(seg.head), len(raw))
			raw, at = raw[bom:], at+int64(bom)
		}
		var begins []int64
		for len(raw) > 0 {
			l := enc.lineEnd(raw)
			if l < 0 {
				l = len(raw)
			}
			text = enc.appendText(text[:0], raw[:l])
			if _, ok := lineTime(text, c); ok {
				begins = append(begins, at)
			}
			raw, at = raw[l:], at+int64(l)
		}
		switch {
		case int64(len(begins)) >= n:
			return begins[int64(len(begins))-n], n, nil
		case start == 0 && len(begins) > 0:
			return 0, int64(len(begins)), nil
		case len(begins) == 0 && (start == 0 || window >= untimedWindow):
			return lastLines(seg, size, n)
		case window >= maxTailWindow:
			return 0, n, nil
		}
	}
}

// countLines counts the lines of a file that cannot be read backwards.
func countLines(seg *segment) (int64, error) {
	buf := make([]byte, tailBlock)
	var off, lines int64
	last := byte('\n')
	for {
		n, err := seg.readAt(buf, off)
		if n > 0 {
			lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
			last = buf[n-1]
			off += int64(n)
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if last != '\n' {
		lines++
	}
	return lines, nil
}

// lastLineEnd returns where the last complete line within the first size bytes ends.
func lastLineEnd(seg *segment, size int64) (int64, error) {
	if !seg.decideEncoding(true) {
		return 0, nil
	}
	size -= size % int64(seg.enc.unit())
	buf := make([]byte, tailBlock)
	for end := size; end > 0; {
		start := max(0, end-tailBlock)
		b := buf[:end-start]
		if err := readFull(seg, b, start); err != nil {
			return 0, err
		}
		if nl := seg.enc.lastLineEnd(b); nl > 0 {
			return start + int64(nl), nil
		}
		end = start
	}
	return 0, nil
}

// readFull fills b. A file that was truncated meanwhile leaves zeros, which are no
// newlines; the reader that follows will notice.
func readFull(seg *segment, b []byte, off int64) error {
	clear(b)
	for n := 0; n < len(b); {
		m, err := seg.readAt(b[n:], off+int64(n))
		if n += m; errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
