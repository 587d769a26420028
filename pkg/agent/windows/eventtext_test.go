// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// TestEventText: what is too long for an event is cut, so that the event log takes the rest.
func TestEventText(t *testing.T) {
	const limit = 31_839 // of ReportEvent, for each string
	for _, tt := range []struct {
		name, message string
		whole         string // empty: it is cut
	}{
		{"lines", "one\ntwo", "one\r\ntwo"},
		{"an end in the middle", "a\x00b", "ab"},
		{"the longest", strings.Repeat("ä", maxEventText), strings.Repeat("ä", maxEventText)},
		{"too long", strings.Repeat("ä", maxEventText+1), ""},
		{"too long with all its line ends", strings.Repeat("\n", maxEventText/2+1), ""},
		{"too long in UTF-16 only", strings.Repeat("😀", maxEventText/2+1), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := eventText(tt.message)
			if units := len(utf16.Encode([]rune(got))); units > limit {
				t.Errorf("it has %d characters", units)
			}
			if cut := strings.HasSuffix(got, "too long for the event log)"); cut != (tt.whole == "") || !cut && got != tt.whole {
				t.Errorf("got %d bytes that end in %q", len(got), got[max(0, len(got)-50):])
			}
		})
	}
}
