// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"time"
)

const (
	tailBlock = 64 << 10
	// maxTailWindow bounds what is kept in memory while records are counted
	// from the end. Beyond it the file is read from its beginning.
	maxTailWindow = 16 << 20
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
	size -= size % int64(seg.enc.unit())
	first := int64(bomLen(seg.head))
	if size <= first {
		return 0, 0, nil
	}
	if n <= 0 {
		return size, 0, nil
	}
	// An end of a line at the very end of the text is not before another line.
	for at, err := range lineEndsBackwards(seg, size) {
		if err != nil {
			return 0, 0, err
		}
		if at < size {
			if found++; found == n {
				return at, found, nil
			}
		}
	}
	return 0, found + 1, nil
}

// lineEndsBackwards yields where the lines within the first size bytes of a file end, the
// last one first.
func lineEndsBackwards(seg *segment, size int64) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		buf := make([]byte, tailBlock)
		for end := size; end > 0; end = max(0, end-tailBlock) {
			start := max(0, end-tailBlock)
			b := buf[:end-start]
			if err := readFull(seg, b, start); err != nil {
				yield(0, err)
				return
			}
			for n := seg.enc.lastLineEnd(b); n > 0; n = seg.enc.lastLineEnd(b[:n-seg.enc.unit()]) {
				if !yield(start+int64(n), nil) {
					return
				}
			}
		}
	}
}

// linesWithTime yields the lines of raw text that have a time: where they begin, and when.
func linesWithTime(enc encoding, raw []byte, c timeContext) iter.Seq2[int, time.Time] {
	return func(yield func(int, time.Time) bool) {
		var text []byte
		for at := 0; at < len(raw); {
			n := enc.lineEnd(raw[at:])
			if n < 0 {
				n = len(raw) - at
			}
			text = enc.appendText(text[:0], raw[at:at+n])
			if t, ok := lineTime(text, c); ok && !yield(at, t) {
				return
			}
			at += n
		}
	}
}

// readLines reads what is between two places of a file, from the first beginning of a line
// there, which it returns too.
func readLines(seg *segment, from, to int64) (raw []byte, at int64, err error) {
	raw = make([]byte, to-from)
	if err := readFull(seg, raw, from); err != nil {
		return nil, 0, err
	}
	skip := min(bomLen(seg.head), len(raw))
	if from > 0 {
		if skip = seg.enc.lineEnd(raw); skip < 0 {
			skip = len(raw)
		}
	}
	return raw[skip:], from + int64(skip), nil
}

// lastRecords is lastLines for records: lines with a time and what continues them.
// It returns 0 rather than to keep more than maxTailWindow in memory.
func lastRecords(seg *segment, size, n int64, c timeContext) (off, found int64, err error) {
	if !seg.decideEncoding(true) || size == 0 {
		return 0, 0, nil
	}
	size -= size % int64(seg.enc.unit())
	for window := int64(tailBlock); ; window *= 4 {
		start := max(0, size-window)
		raw, first, err := readLines(seg, start, size)
		if err != nil {
			return 0, 0, err
		}
		var begins []int64
		for at := range linesWithTime(seg.enc, raw, c) {
			begins = append(begins, first+int64(at))
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
	for end, err := range lineEndsBackwards(seg, size-size%int64(seg.enc.unit())) {
		return end, err
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
