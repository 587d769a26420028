// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package message

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// MaxEventNote is how long the note of an event may be, in bytes; see Event in
// k8s.io/api/events/v1.
const MaxEventNote = 1024

// EventNote returns text as the note of an event, shortened when it is too long for one.
func EventNote(text string) string { return Shorten(text, MaxEventNote) }

// maxConditionMessage is the limit of metav1.Condition, in bytes.
const maxConditionMessage = 32768

// ConditionMessage returns text as the message of a condition, shortened when it is too
// long for one.
func ConditionMessage(text string) string { return Shorten(text, maxConditionMessage) }

// Sentence returns text as a sentence of its own: with a capital letter and a period. Of nothing it makes nothing.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return Capital(text)
}

// Capital returns text with a capital letter where it begins with one of a to z.
func Capital(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// Cause returns text as the end of a sentence that it is the cause of: with a period, or with words in its place when it is empty.
func Cause(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "no reason is known."
	}
	return strings.TrimRight(text, ".") + "."
}

// Shorten returns text in at most limit bytes, cut between two characters and with
// an ellipsis at its end when something is missing. Limit must be at least 3.
func Shorten(text string, limit int) string {
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
		b.WriteString(Shorten(line, maxLine))
	}
	return b.String()
}
