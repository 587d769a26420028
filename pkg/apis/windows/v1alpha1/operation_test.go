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

func TestBlockedPod(t *testing.T) {
	tests := []struct {
		name string
		pod  BlockedPod
		want string
	}{
		{"by a budget", BlockedPod{Namespace: "shop", Name: "web-1", Budget: "web", Message: "needs 2 healthy\npods"}, "shop/web-1 (PodDisruptionBudget web): needs 2 healthy pods"},
		{"by something else", BlockedPod{Namespace: "shop", Name: "web-1", Message: "a webhook denied it"}, "shop/web-1: a webhook denied it"},
		{"without a reason", BlockedPod{Namespace: "shop", Name: "web-1", Budget: "web"}, "shop/web-1 (PodDisruptionBudget web)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.pod.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
