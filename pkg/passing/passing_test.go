// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package passing

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestError: an API server that is away is waited for, and what it says is not.
func TestError(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}
	request := func(err error) error { return &url.Error{Op: "Get", URL: "https://10.96.0.1/api", Err: err} }
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"refused", request(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{"no route", request(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}), true},
		{"no name", request(&net.DNSError{Err: "no such host", Name: "api", IsNotFound: true}), true},
		{"the connection ends", request(io.EOF), true},
		{"connection lost", request(errors.New("http2: client connection lost")), true},
		{"connection lost while the answer was read", errors.New("http2: client connection lost"), true},
		{"connection closed while the answer was read", errors.New("http2: server sent GOAWAY and closed the connection"), true},
		{"a conflict", apierrors.NewConflict(resource, "a", errors.New("changed")), true},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
		{"one of several", errors.Join(apierrors.NewTooManyRequests("later", 1), errors.New("another")), true},
		{"a timeout", apierrors.NewTimeoutError("etcd", 1), true},
		{"a timeout of the server", apierrors.NewServerTimeout(resource, "get", 1), true},
		{"an error of the server", apierrors.NewInternalError(errors.New("etcd")), true},
		{"an error without a reason", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError}}, true},
		{"the server starts", apierrors.NewServiceUnavailable("starts"), true},
		{"the API is away", apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodPatch, resource, "a", "404 page not found", 0, true), true},
		{"a quota, a webhook, or no right", apierrors.NewForbidden(resource, "a", errors.New("no")), false},
		{"not there", apierrors.NewNotFound(resource, "a"), false},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Group: "windows.openshift.io", Kind: "WindowsInstance"}, "a", nil), false},
		{"an object that cannot be read", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError}}, false},
		{"what was read ends too soon", io.ErrUnexpectedEOF, false},
		{"an input is missing", errors.New("there is no CA of the API server"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Error(fmt.Errorf("reading: %w", tt.err)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
