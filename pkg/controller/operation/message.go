// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// boundMessages shortens the messages of an operation that are too long for its record. All
// that is recorded passes through here, as errors of hosts and servers get into many of them.
func boundMessages(op *v1alpha1.Operation) {
	bound(&op.Message)
	for i := range op.Steps {
		bound(&op.Steps[i].Message)
	}
	for i := range op.BlockedBy {
		bound(&op.BlockedBy[i].Message)
	}
}

func bound(text *string) {
	*text = message.Shorten(*text, v1alpha1.MaxOperationMessage)
}

// withNote joins why an operation ended with in what state that leaves the host and what to
// do: where both are too long together, the cause is cut and not the note.
func withNote(cause, note string) string {
	const limit = v1alpha1.MaxOperationMessage
	return message.Shorten(cause, max(limit-len(note), limit/2)) + note
}
