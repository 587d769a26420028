// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

func TestRestart(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	first, err := s.client.BootID(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	request := api.RestartRequest{BootID: first, Reason: "a test"}
	for range 2 { // the second one while the host goes down
		answer, err := s.client.Restart(t.Context(), s.Instance, request)
		if want := (api.RestartAnswer{BootID: first}); err != nil || answer != want {
			t.Errorf("got %+v, %v, want %+v", answer, err, want)
		}
	}
	var second string
	hosttest.Eventually(t, "the host is in another boot", func() bool {
		s.client.Forget(s.Instance)
		second, err = s.client.BootID(t.Context(), s.Instance)
		return err == nil && second != first
	})
	answer, err := s.client.Restart(t.Context(), s.Instance, request)
	if want := (api.RestartAnswer{BootID: second, Restarted: true}); err != nil || answer != want {
		t.Errorf("after the restart: got %+v, %v, want %+v", answer, err, want)
	}
	if n := s.Host.Restarts(); n != 1 {
		t.Errorf("the host restarted %d times", n)
	}
	if _, err := s.client.Restart(t.Context(), s.Instance, api.RestartRequest{}); err == nil {
		t.Error("a request that names no boot is no error")
	}
}

// TestLostAnswer: nobody knows whether a host restarts whose answer did not come; asking
// again restarts it once.
func TestLostAnswer(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	boot, err := s.client.BootID(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	s.SetFault(t, winhost.Fault{ExecMatch: "restart$", ExecExit: 1})
	request := api.RestartRequest{BootID: boot}
	var failed *Error
	if _, err := s.client.Restart(t.Context(), s.Instance, request); !errors.As(err, &failed) || failed.Step != StepRun {
		t.Errorf("got %v, want an agent that failed", err)
	}
	s.SetFault(t, winhost.Fault{})
	if answer, err := s.client.Restart(t.Context(), s.Instance, request); err != nil || answer.Restarted {
		t.Errorf("got %+v, %v", answer, err)
	}
	hosttest.Eventually(t, "the host restarts", func() bool { return s.Host.Restarts() == 1 })
}

func TestEnsureRoutes(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	routes := []api.Route{
		{Destination: netip.MustParsePrefix("169.254.169.254/32")},
		{Destination: netip.MustParsePrefix("169.254.169.250/32"), Gateway: netip.MustParseAddr("10.0.0.1"), Interface: 4},
	}
	for _, tt := range []struct {
		name string
		want []api.Route
	}{
		{"missing", routes},
		{"there", nil},
	} {
		got, err := s.client.EnsureRoutes(t.Context(), s.Instance, routes)
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b api.Route) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%s: %v, changed (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := s.client.EnsureRoutes(t.Context(), s.Instance, []api.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0")}}); err == nil {
		t.Error("a default route is no error")
	}
}
