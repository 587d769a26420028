// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestTransient: an API server that is away ends no operation, and what it says does.
func TestTransient(t *testing.T) {
	secrets := corev1.Resource("secrets")
	request := func(err error) error {
		return fmt.Errorf("reading: %w", &url.Error{Op: "Get", URL: "https://10.96.0.1/api", Err: err})
	}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"refused", request(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{"no route", request(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}), true},
		{"no name", request(&net.DNSError{Err: "no such host", Name: "api", IsNotFound: true}), true},
		{"connection lost", request(errors.New("http2: client connection lost")), true},
		{"connection lost while the answer was read", errors.New("http2: client connection lost"), true},
		{"unavailable", apierrors.NewServiceUnavailable("away"), true},
		{"one of several", errors.Join(apierrors.NewTooManyRequests("later", 1), errors.New("another")), true},
		{"forbidden", apierrors.NewForbidden(secrets, "a", errors.New("no")), false},
		{"not there", apierrors.NewNotFound(secrets, "a"), false},
		{"an input is missing", errors.New("there is no CA of the API server"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isTransientAPI(tt.err); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestWhoDoesNotLeadChangesNothing: a process that was stopped for a while and goes on does
// nothing to a host that another one works on by now, and leaves the record to that.
func TestWhoDoesNotLeadChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newInstance(reconfigureOperation()))
	f.configure()
	r, _ := f.process()
	asked := make(chan struct{}, 100)
	r.Leads = func(context.Context) (bool, error) {
		asked <- struct{}{}
		return false, nil
	}
	f.reconcile(r)
	<-asked
	f.eventually("it to end", func() bool {
		running, waiting := r.runner.load()
		return running+waiting == 0
	})
	if wasApplied(f) {
		t.Error("the host was changed")
	}
	if op := f.get().Status.Operation; !op.Active() {
		t.Errorf("the operation of the other process is %s: %s", op.Phase, op.Message)
	}
}
