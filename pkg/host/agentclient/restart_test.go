// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"net/netip"
	"strings"
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
	want := api.RestartAnswer{BootID: first}
	s.Host.SetRestart(winhost.RestartOptions{Ignored: true})
	if answer, err := s.client.Restart(t.Context(), s.Instance, request); err != nil || answer != want {
		t.Errorf("got %+v, %v, want %+v", answer, err, want)
	}
	s.Host.SetRestart(winhost.RestartOptions{})
	for range 2 { // the second one while the host goes down, which may take the answer with it
		if answer, err := s.client.Restart(t.Context(), s.Instance, request); err == nil && answer != want && !answer.Restarted {
			t.Errorf("got %+v, want %+v", answer, want)
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

// TestRestartIsRequestedOnce: after an agent that ended without an answer nobody knows whether the
// host restarts. What happens to a second request must not hide that.
func TestRestartIsRequestedOnce(t *testing.T) {
	requests := 0
	s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		requests++
		return 0xC000013A, true // as the programs of a host end that goes down
	}})
	s.place(t, "hostile")
	var failed *Error
	_, err := s.client.Restart(t.Context(), s.Instance, api.RestartRequest{BootID: "2026-01-02T03:04:05.0000000Z"})
	if !errors.As(err, &failed) || failed.Step != StepRun || requests != 1 {
		t.Errorf("got %v after %d requests", err, requests)
	}
	// The agent may be gone as well: it is placed again for the next request.
	if program := s.place(t, "placed again"); program != "placed again" {
		t.Errorf("%s is thought to be there", program)
	}
}

func TestRestartRefused(t *testing.T) {
	for _, answer := range []string{`{"bootID":"","restarted":false,"refused":"no\u001b boot"}`, `{"bootID":"2026-01-02T03:04:05.0000000Z","restarted":false,"refused":"a privilege is not held"}`} {
		s := newHostileSite(t, say(answer+"\n"))
		var failed *Error
		_, err := s.client.Restart(t.Context(), s.Instance, api.RestartRequest{BootID: "2026-01-02T03:04:05.0000000Z"})
		if !errors.As(err, &failed) || failed.Step != StepRefused || strings.Contains(err.Error(), "\u001b") {
			t.Errorf("got %v", err)
		}
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
