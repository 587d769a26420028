// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import "strings"

// Finding is one thing that hosts cannot be set up without, or that cannot be used.
type Finding struct {
	// Problem says what is the matter.
	Problem string
	// Remedy says what to do about it.
	Remedy string
}

// InputError says everything that keeps hosts from being set up in this cluster. Trying
// again does not help before somebody did something about each of the findings.
type InputError struct {
	// Findings in the order in which they were looked for, which is always the same.
	Findings []Finding
}

// Error tells all findings. The same findings have the same text.
func (e *InputError) Error() string {
	parts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		parts[i] = f.Problem + ": " + f.Remedy
	}
	return "hosts cannot be set up in this cluster: " + strings.Join(parts, "; ")
}
