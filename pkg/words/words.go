// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package words puts into words what messages of all programs tell people.
package words

import (
	"fmt"
	"regexp"
	"strings"
)

// Enumerate joins the first limit texts, and counts the others.
func Enumerate(texts []string, limit int) string {
	if len(texts) <= limit {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:limit], ", "), len(texts)-limit)
}

// Count is a number of things: one of them is what.
func Count(n int, what string) string { return fmt.Sprintf("%d %s", n, what+Form(n, "", "s")) }

// Form is the form of a word for a number of things: one, or several.
func Form(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// OneLine is a text without its line breaks, and with single spaces.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// sentenceEnd matches the end of a sentence that another one, or another line, follows.
var sentenceEnd = regexp.MustCompile(`\.\s+[A-Z]|\.?\s*\n`)

// FirstSentence returns the first sentence of a text, without its period.
func FirstSentence(text string) string {
	if at := sentenceEnd.FindStringIndex(text); at != nil {
		return text[:at[0]]
	}
	return strings.TrimSuffix(text, ".")
}

// DeniedByWebhook says whether an API server answers in these words that an admission webhook has denied the request, whatever code the answer
// has. They are those of pkg/admission/plugin/webhook/errors of k8s.io/apiserver.
func DeniedByWebhook(answer string) bool {
	return strings.HasPrefix(answer, `admission webhook "`) && strings.Contains(answer, `" denied the request`)
}

// ourEnd matches our end of a connection in an error of package net.
var ourEnd = regexp.MustCompile(`\[?[0-9A-Za-z:.%]+\]?:\d+->`)

// Steady returns the text of an error without our ends of connections, whose ports differ from try to try: where the cause is the
// same, so is the message. What the other end is stays.
func Steady(text string) string { return ourEnd.ReplaceAllString(text, "") }
