// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"strings"
	"testing"
)

func TestShortRevision(t *testing.T) {
	tests := []struct{ name, revision, want string }{
		{"a document", strings.Repeat("0123456789abcdef", 4), "0123456789ab"},
		{"an agent", "0123456789abcdef", "0123456789ab"},
		{"short already", "abc", "abc"},
		{"none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ShortRevision(tt.revision); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
