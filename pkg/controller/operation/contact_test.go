// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A server that is starting may not know the API yet; then nothing is over.
func TestGone(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"the object", apierrors.NewNotFound(resource, "win-1"), true},
		{"the API", apierrors.NewGenericServerResponse(404, "GET", resource, "win-1", "404 page not found", 0, true), false},
		{"the server", errors.New("connection refused"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gone(tt.err); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
