// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestMessagesAreBounded: whatever an error says, the record stays small, and says at its end
// what to do.
func TestMessagesAreBounded(t *testing.T) {
	const limit = v1alpha1.MaxOperationMessage
	long := strings.Repeat("x", 2*limit)
	op := drainOperation()
	op.Message = long
	op.Steps = []v1alpha1.OperationStep{{Message: long}, {Message: "short"}}
	op.BlockedBy = []v1alpha1.BlockedPod{{Message: long}}
	boundMessages(&op)
	for _, got := range []string{op.Message, op.Steps[0].Message, op.BlockedBy[0].Message} {
		if len(got) > limit || !strings.HasPrefix(got, "xxx") {
			t.Errorf("%d bytes", len(got))
		}
	}
	if got := op.Steps[1].Message; got != "short" {
		t.Errorf("got %q", got)
	}
	for _, note := range []string{"", " Do this.", long} {
		got := withNote(long, note)
		if !strings.HasSuffix(got, note) || !strings.HasPrefix(got, "xxx") || len(got) > max(limit, len(note)+limit/2) {
			t.Errorf("with %d bytes of note: %d bytes", len(note), len(got))
		}
	}
	if got := withNote("It failed.", " Do this."); got != "It failed. Do this." {
		t.Errorf("got %q", got)
	}
}
