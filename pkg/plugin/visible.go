// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"io"
	"unicode/utf8"
)

// visibleWriter makes the control characters in a text visible, so that they do not act on the
// terminal that shows it: whoever writes to a log could otherwise change what the reader of the
// log sees, or what the terminal says to the shell. They are written as cat -v does, for example
// ^[ for escape. Tabs and ends of lines stay.
type visibleWriter struct {
	to io.Writer
	// held is the beginning of what only the next bytes tell: a carriage return, or a part of
	// a character.
	held []byte
	out  []byte
}

// visible is a text of others, such as a message of a host, as [visibleWriter] shows it.
func visible(text string) string {
	var w visibleWriter
	for rest := []byte(text); len(rest) > 0; {
		rest = rest[w.next(rest):]
	}
	return string(w.out)
}

// Write implements [io.Writer].
func (w *visibleWriter) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	w.out = w.out[:0]
	text := w.held
	for len(text) > 0 && (text[0] != '\r' || len(text) > 1) && utf8.FullRune(text) {
		text = text[w.next(text):]
	}
	w.held = append(w.held[:0], text...)
	if _, err := w.to.Write(w.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// finish writes what was held back.
func (w *visibleWriter) finish() error {
	text := w.held
	w.out, w.held = w.out[:0], nil
	for len(text) > 0 {
		text = text[w.next(text):]
	}
	_, err := w.to.Write(w.out)
	return err
}

// next takes one character of the text, or the end of a line, and returns its length.
func (w *visibleWriter) next(text []byte) int {
	r, n := utf8.DecodeRune(text)
	if r == utf8.RuneError && n == 1 {
		// No UTF-8: a terminal may take each byte for a character.
		r = rune(text[0])
	}
	switch {
	case r == '\r' && len(text) > 1 && text[1] == '\n':
		n = 2
		w.out = append(w.out, text[:n]...)
	case r == '\n' || r == '\t':
		w.out = append(w.out, text[:n]...)
	case r < 0x20:
		w.out = append(w.out, '^', byte(r)+0x40)
	case r == 0x7f:
		w.out = append(w.out, '^', '?')
	case r >= 0x80 && r < 0xa0:
		// The same as escape and this character (ECMA-35).
		w.out = append(w.out, '^', '[', byte(r)-0x40)
	default:
		w.out = append(w.out, text[:n]...)
	}
	return n
}
