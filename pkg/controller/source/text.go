// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package source

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// maxEventNote is how long the note of an event may be, in bytes; see Event in
// k8s.io/api/events/v1.
const maxEventNote = 1024

// EventNote returns text as the note of an event, shortened when it is too long for one.
func EventNote(text string) string { return shorten(text, maxEventNote) }

// shorten returns text in at most limit bytes, cut between two characters and with
// an ellipsis at its end when something is missing. Limit must be at least 3.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}

const (
	// maxLines bounds how many lines a message of a condition lists.
	maxLines = 30
	// maxLine bounds each of them, in bytes. Together they stay well below the
	// 32768 bytes that a message of a condition may have.
	maxLine = 400
)

// Lines joins lines into the message of a condition and says how many more there are.
func Lines(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i == maxLines {
			fmt.Fprintf(&b, "\nand %d more", len(lines)-maxLines)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(shorten(line, maxLine))
	}
	return b.String()
}
