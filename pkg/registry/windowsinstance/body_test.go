// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"strings"
	"testing"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// TestBodyOfAnotherRequest: each subresource that is posted to refuses a body that names
// another instance than the URL does.
func TestBodyOfAnotherRequest(t *testing.T) {
	ctx := genericapirequest.WithNamespace(t.Context(), "default")
	for _, tt := range []struct {
		name            string
		body, namespace string
		want            string
	}{
		{"nothing", "", "", ""},
		{"the same", "win-1", "default", ""},
		{"another name", "win-2", "", "metadata.name"},
		{"another namespace", "win-1", "other", "metadata.namespace"},
		{"both", "win-2", "other", "metadata.name metadata.namespace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := &windows.WindowsInstanceCheck{}
			body.Name, body.Namespace = tt.body, tt.namespace
			var fields []string
			for _, err := range validateBodyOf(ctx, "win-1", body) {
				fields = append(fields, err.Field)
			}
			if got := strings.Join(fields, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
