// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// Whoever has what there is for them is refused before anything else is asked, which may be costly: rights,
// the instance, and what the request says.
func TestAdmittedFirst(t *testing.T) {
	for _, test := range []struct {
		kind limits.Kind
		ask  func(ctx context.Context, s *fixture) error
	}{
		{limits.Logs, func(ctx context.Context, s *fixture) error {
			_, err := s.Log.Get(ctx, "nowhere", &windows.WindowsInstanceLogOptions{Pattern: "("})
			return err
		}},
		{limits.Exec, func(ctx context.Context, s *fixture) error {
			return connect(ctx, s.Exec, &windows.WindowsInstanceExecOptions{})
		}},
		{limits.PortForward, func(ctx context.Context, s *fixture) error {
			return connect(ctx, s.PortForward, &windows.WindowsInstancePortForwardOptions{Ports: []int32{1, 2}})
		}},
		{limits.Query, func(ctx context.Context, s *fixture) error {
			_, err := s.Check.Create(ctx, "nowhere", &windows.WindowsInstanceCheck{}, nil, &metav1.CreateOptions{})
			return err
		}},
		{limits.Query, func(ctx context.Context, s *fixture) error {
			_, err := s.Inspect.Get(ctx, "nowhere", &metav1.GetOptions{})
			return err
		}},
		{limits.Query, func(ctx context.Context, s *fixture) error {
			_, err := s.Reconfigure.Create(ctx, "nowhere", &windows.WindowsInstanceReconfigure{}, nil, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
	} {
		s := newStorageWith(t, base.Deleters{}, limits.New(map[limits.Kind]limits.Limits{test.kind: {PerUser: 2}}))
		ctx := requestFor(t.Context(), "get", "any")
		if err := test.ask(ctx, s); err == nil || apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: got %v with all places free", test.kind, err)
		}
		asked := len(s.rights())
		for range 2 {
			if _, err := admit(ctx, s.streams, test.kind, "another", 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := test.ask(ctx, s); !apierrors.IsTooManyRequests(err) || len(s.rights()) > asked {
			t.Errorf("%s: got %v, asked for %v", test.kind, err, s.rights())
		}
		if s.streams.Open() != 2 {
			t.Errorf("%s: %d places are taken, want 2", test.kind, s.streams.Open())
		}
	}
}

// A port forward counts with each of its ports.
func TestForwardCountsItsPorts(t *testing.T) {
	s := newStorageWith(t, base.Deleters{}, limits.New(map[limits.Kind]limits.Limits{limits.PortForward: {PerUser: 2}}))
	for ports, refused := range map[int]bool{2: false, 3: true} {
		err := connect(requestFor(t.Context(), "get", "portforward"), s.PortForward, &windows.WindowsInstancePortForwardOptions{Ports: make([]int32, ports)})
		if apierrors.IsTooManyRequests(err) != refused {
			t.Errorf("%d ports: got %v", ports, err)
		}
	}
}

// connect is the answer to a request for a session.
func connect(ctx context.Context, connecter rest.Connecter, options runtime.Object) error {
	answer := &answers{}
	handler, err := connecter.Connect(ctx, "nowhere", options, answer)
	if err != nil {
		return err
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return answer.err
}
