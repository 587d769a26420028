// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is how the text of a file is stored.
type encoding int

const (
	utf8Text encoding = iota
	utf16LE
	utf16BE
)

// detectionBytes is how much of a file is read to detect its encoding.
const detectionBytes = 1024

var (
	bomUTF8    = []byte{0xEF, 0xBB, 0xBF}
	bomUTF16LE = []byte{0xFF, 0xFE}
	bomUTF16BE = []byte{0xFE, 0xFF}
)

// detectEncoding detects the encoding from the first bytes of a file: by the byte
// order mark, or else by where the zero bytes are. Mostly Latin text in UTF-16
// has them in every other place; text in UTF-8 has none.
func detectEncoding(head []byte) encoding {
	switch {
	case bytes.HasPrefix(head, bomUTF16LE):
		return utf16LE
	case bytes.HasPrefix(head, bomUTF16BE):
		return utf16BE
	case bytes.HasPrefix(head, bomUTF8):
		return utf8Text
	}
	if len(head) > detectionBytes {
		head = head[:detectionBytes]
	}
	units := len(head) / 2
	if units < 2 {
		return utf8Text
	}
	var even, odd int
	for i := 0; i+1 < len(head); i += 2 {
		if head[i] == 0 {
			even++
		}
		if head[i+1] == 0 {
			odd++
		}
	}
	switch {
	case odd*2 >= units && even*8 <= units:
		return utf16LE
	case even*2 >= units && odd*8 <= units:
		return utf16BE
	}
	return utf8Text
}

// unit is the size of the smallest part of a character in bytes.
func (e encoding) unit() int {
	if e == utf8Text {
		return 1
	}
	return 2
}

// lineEnd returns the length of the first line within b including its newline, or
// -1 when there is no newline. b begins at a character's boundary.
func (e encoding) lineEnd(b []byte) int {
	if e == utf8Text {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return i + 1
		}
		return -1
	}
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return -1
		}
		i += from
		if end, ok := e.newlineAt(b, i); ok {
			return end
		}
		from = i + 1
	}
}

// newlineAt says whether the byte '\n' at index i is a newline in UTF-16, and
// where the line ends then. Index 0 of b is even in the file.
func (e encoding) newlineAt(b []byte, i int) (end int, ok bool) {
	switch {
	case e == utf16LE && i%2 == 0 && i+1 < len(b) && b[i+1] == 0:
		return i + 2, true
	case e == utf16BE && i%2 == 1 && b[i-1] == 0:
		return i + 1, true
	}
	return 0, false
}

// lastLineEnd returns the length of all complete lines within b, 0 when there is none.
func (e encoding) lastLineEnd(b []byte) int {
	if e == utf8Text {
		return bytes.LastIndexByte(b, '\n') + 1
	}
	for to := len(b); ; {
		i := bytes.LastIndexByte(b[:to], '\n')
		if i < 0 {
			return 0
		}
		if end, ok := e.newlineAt(b, i); ok {
			return end
		}
		to = i
	}
}

// cut returns the greatest length at which b can be cut without cutting a character, of
// which a part may not be written yet.
func (e encoding) cut(b []byte) int {
	n := len(b)
	if e == utf8Text {
		for back := 1; back <= min(utf8.UTFMax, n); back++ {
			if utf8.RuneStart(b[n-back]) {
				if !utf8.FullRune(b[n-back:]) {
					return n - back
				}
				break
			}
		}
		return n
	}
	n -= n % 2
	if n >= 2 && utf16.IsSurrogate(rune(e.codeUnit(b[n-2:]))) && e.codeUnit(b[n-2:]) < 0xDC00 {
		n -= 2
	}
	return n
}

func (e encoding) codeUnit(b []byte) uint16 {
	if e == utf16BE {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// appendText appends the text of one raw line to dst as valid UTF-8, without its
// LF or CRLF. A CR elsewhere is kept, invalid bytes become U+FFFD.
func (e encoding) appendText(dst, raw []byte) []byte {
	if e == utf8Text {
		return appendValid(dst, trimEOL(raw))
	}
	start := len(dst)
	units := make([]uint16, 0, len(raw)/2)
	for ; len(raw) >= 2; raw = raw[2:] {
		units = append(units, e.codeUnit(raw))
	}
	for _, r := range utf16.Decode(units) {
		dst = utf8.AppendRune(dst, r)
	}
	if len(raw) != 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	return dst[:start+len(trimEOL(dst[start:]))]
}

// verbatim says whether raw lines can go out as they are.
func (e encoding) verbatim(raw []byte) bool {
	return e == utf8Text && bytes.IndexByte(raw, '\r') < 0 && utf8.Valid(raw)
}

// bomLen is the length of the byte order mark that a file begins with.
func bomLen(head []byte) int {
	switch {
	case bytes.HasPrefix(head, bomUTF8):
		return len(bomUTF8)
	case bytes.HasPrefix(head, bomUTF16LE), bytes.HasPrefix(head, bomUTF16BE):
		return len(bomUTF16LE)
	}
	return 0
}

func trimEOL(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
		if n > 1 && b[n-2] == '\r' {
			b = b[:n-2]
		}
	}
	return b
}

func appendValid(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	// Invalid bytes are U+FFFD in the runes of a string.
	for _, r := range string(b) {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
