// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package words puts into words what messages of all programs tell people.
package words

import (
	"fmt"
	"strings"
)

// Enumerate joins the first limit texts, and counts the others.
func Enumerate(texts []string, limit int) string {
	if len(texts) <= limit {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:limit], ", "), len(texts)-limit)
}
