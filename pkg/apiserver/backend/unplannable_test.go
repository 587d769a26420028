// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUnplannable: what could not be read is not said to be impossible.
func TestUnplannable(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code int
	}{
		"no connection":  {fmt.Errorf("reading: %w", &url.Error{Op: "Get", URL: "https://10.0.0.1", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}), http.StatusServiceUnavailable},
		"no answer":      {fmt.Errorf("reading: %w", context.DeadlineExceeded), http.StatusServiceUnavailable},
		"canceled":       {context.Canceled, http.StatusServiceUnavailable},
		"refused":        {apierrors.NewForbidden(v1alpha1.Resource("x"), "y", errors.New("no")), http.StatusServiceUnavailable},
		"contradictions": {errors.New("the payload has no kubelet.exe"), http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			var status apierrors.APIStatus
			if got := unplannable("win-1", tt.err); !errors.As(got, &status) || int(status.Status().Code) != tt.code {
				t.Errorf("got %v, want code %d", got, tt.code)
			}
		})
	}
}
