// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// Finding is one thing that is missing or unusable, so that hosts cannot be configured.
type Finding struct {
	// Problem says what is wrong.
	Problem string
	// Remedy says what to do about it.
	Remedy string
	// OtherOperator: it is that the Windows Machine Config Operator runs, or that nobody can know.
	OtherOperator bool
}

// String says it in messages.
func (f Finding) String() string { return f.Problem + ": " + f.Remedy }

// InputError says everything that prevents hosts from being configured in this cluster. Trying
// again does not help before each of the findings is resolved.
type InputError struct {
	// Findings are in the order in which they were searched for, which is always the same.
	Findings []Finding
}

// Is has [errors.Is] tell it from trouble that passes, and what is left to another operator from what is wrong.
func (e *InputError) Is(target error) bool {
	return target == document.ErrInputs ||
		target == document.ErrOtherOperator && slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.OtherOperator })
}

// Error lists all findings. The same findings have the same text.
func (e *InputError) Error() string {
	parts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		parts[i] = f.String()
	}
	return "hosts cannot be configured in this cluster: " + strings.Join(parts, "; ")
}
