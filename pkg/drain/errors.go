// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"fmt"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxNamed bounds how many pods an error names one by one.
const maxNamed = 50

// NotAllowedError means that the options do not allow some pods to leave. No pod was
// asked to.
type NotAllowedError struct {
	// Objections has an entry for each option that is in the way.
	Objections []Objection
}

// Objection is why pods may not leave.
type Objection struct {
	// Kind says what the pods are, for example "pods with emptyDir volumes".
	Kind string
	// Remedy says which option allows it and what it costs.
	Remedy string
	// Pods are the pods as namespace/name, sorted.
	Pods []string
}

// Error implements error.
func (e *NotAllowedError) Error() string {
	parts := make([]string, len(e.Objections))
	for i, o := range e.Objections {
		parts[i] = fmt.Sprintf("%s (%s): %s", o.Kind, o.Remedy, words.Enumerate(o.Pods, maxNamed))
	}
	return "the options do not allow it: there are " + strings.Join(parts, "; ")
}

// TimeoutError means that pods were still there at the deadline.
type TimeoutError struct {
	// Total is how many should have left.
	Total int
	// Pods says for each pod that is left what it waits for, sorted.
	Pods []string
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timeout: %d of %d pods have not left: %s", len(e.Pods), e.Total, words.Enumerate(e.Pods, maxNamed))
}

// RefusedError means that the API server does not let pods leave and never will as
// things are. The other pods have left.
type RefusedError struct {
	// Pods says for each of them why, sorted.
	Pods []string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return "the API server refuses permanently: " + words.Enumerate(e.Pods, maxNamed)
}
