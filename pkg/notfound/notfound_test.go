// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package notfound

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestObject(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"the object", apierrors.NewNotFound(resource, "win-1"), true},
		{"the object, in other words", fmt.Errorf("writing: %w", apierrors.NewNotFound(resource, "win-1")), true},
		{"the API, or what is in front of it", fmt.Errorf("writing: %w", apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, resource, "win-1", "404 page not found", 0, true)), false},
		{"another refusal", apierrors.NewForbidden(resource, "win-1", errors.New("no")), false},
		{"the server", errors.New("connection refused"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Object(tt.err); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
