// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// encode writes text as a file in the encoding.
func encode(e encoding, text string, bom bool) string {
	if e == utf8Text {
		if bom {
			text = "\uFEFF" + text
		}
		return text
	}
	if bom {
		text = "\uFEFF" + text
	}
	var out []byte
	for _, u := range utf16.Encode([]rune(text)) {
		if e == utf16BE {
			out = binary.BigEndian.AppendUint16(out, u)
		} else {
			out = binary.LittleEndian.AppendUint16(out, u)
		}
	}
	return string(out)
}

func TestEncodings(t *testing.T) {
	long := strings.Repeat("x", 3*minBuffer)
	tests := []struct {
		name string
		file string
		want string
	}{
		{name: "plain", file: "a\nb\n", want: "a\nb\n"},
		{name: "last line without end", file: "a\nb", want: "a\nb\n"},
		{name: "empty", file: "", want: ""},
		{name: "empty lines", file: "\n\na\n\n", want: "\n\na\n\n"},
		{name: "CRLF", file: "a\r\nb\r\n", want: "a\nb\n"},
		{name: "lone CR", file: "a\rb\n\r\nc\r", want: "a\rb\n\nc\r\n"},
		{name: "CR before CRLF", file: "a\r\r\n", want: "a\r\n"},
		{name: "NUL", file: "a\x00b\nc\n", want: "a\x00b\nc\n"},
		{name: "UTF-8", file: "žluťoučký 日本 😀\n", want: "žluťoučký 日本 😀\n"},
		{name: "UTF-8 with BOM", file: encode(utf8Text, "a\nb\n", true), want: "a\nb\n"},
		{name: "BOM alone", file: encode(utf8Text, "", true), want: ""},
		{name: "invalid UTF-8", file: "a\xff\xfeb\nc\n", want: "a\uFFFD\uFFFDb\nc\n"},
		{name: "UTF-8 that breaks off", file: "a\xe6\x97", want: "a\uFFFD\uFFFD\n"},
		{name: "UTF-16LE with BOM", file: encode(utf16LE, "a\r\n日本\r\n😀\n", true), want: "a\n日本\n😀\n"},
		{name: "UTF-16BE with BOM", file: encode(utf16BE, "a\r\n日本\r\n😀\n", true), want: "a\n日本\n😀\n"},
		{name: "UTF-16LE without BOM", file: encode(utf16LE, "first line\r\nsecond\r\n", false), want: "first line\nsecond\n"},
		{name: "UTF-16BE without BOM", file: encode(utf16BE, "first line\r\nsecond\r\n", false), want: "first line\nsecond\n"},
		{name: "UTF-16 with characters that look like newlines", file: encode(utf16LE, "\u0A0A\u0A00\u000A\u010A", true), want: "\u0A0A\u0A00\n\u010A\n"},
		{name: "UTF-16 that breaks off", file: encode(utf16LE, "ab\ncd", true) + "e", want: "ab\ncd\uFFFD\n"},
		{name: "UTF-16 with half a pair", file: "\xff\xfea\x00\x3d\xd8b\x00\n\x00\x00\xdc\n\x00", want: "a\uFFFDb\n\uFFFD\n"},
		{name: "line longer than the buffer", file: "a\n" + long + "\nb\n", want: "a\n" + long + "\nb\n"},
		{name: "long line in UTF-16", file: encode(utf16LE, "a\n"+long+"\nb\n", true), want: "a\n" + long + "\nb\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestHost(t)
			h.write(t, "x.log", tt.file)
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}}); got != tt.want {
				t.Errorf("by block: got %.200q, want %.200q", got, tt.want)
			}
			// The same text must come out when every line is looked at.
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}, UntilTime: ptr(day(23, 0, 0))}); got != tt.want {
				t.Errorf("by line: got %.200q, want %.200q", got, tt.want)
			}
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}, Pattern: "(?s).*"}); got != tt.want {
				t.Errorf("by record: got %.200q, want %.200q", got, tt.want)
			}
		})
	}
}

// TestEndlessLine proves that a line without end is passed on in pieces that are
// whole characters.
func TestEndlessLine(t *testing.T) {
	text := strings.Repeat("日", maxLine) // 3 MiB
	for _, e := range []encoding{utf8Text, utf16LE} {
		h := newTestHost(t)
		h.write(t, "x.log", encode(e, text+"\nend\n", true))
		if got := h.read(t, api.LogRequest{Queries: []string{"x"}}); got != text+"\nend\n" {
			t.Errorf("encoding %d by block: got %d bytes, want %d unchanged", e, len(got), len(text)+5)
		}
		got := h.read(t, api.LogRequest{Queries: []string{"x"}, UntilTime: ptr(day(23, 0, 0))})
		if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") || strings.ReplaceAll(got, "\n", "") != text+"end" {
			t.Errorf("encoding %d by line: the pieces do not make up the line", e)
		}
		for line := range strings.Lines(got) {
			if len(line) > 2*maxLine {
				t.Errorf("encoding %d: a piece of %d bytes", e, len(line))
			}
		}
	}
}

func TestAppendTextNeverFails(t *testing.T) {
	for _, e := range []encoding{utf8Text, utf16LE, utf16BE} {
		for a := range 256 {
			for b := range 256 {
				raw := []byte{byte(a), byte(b), '\n'}
				if got := e.appendText(nil, raw); !utf8.Valid(got) {
					t.Fatalf("encoding %d: %x became %x", e, raw, got)
				}
			}
		}
	}
}
