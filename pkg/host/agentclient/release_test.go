// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestRelease: a host that is given up says that it has no configuration of ours, and its services run on.
func TestRelease(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	request := api.ReleaseRequest{Imported: `C:\k\imported-certs.pem`}
	if result, err := c.client.Release(t.Context(), c.Instance, request, nil); err != nil || result.Outcome != api.OutcomeUnchanged {
		t.Fatalf("of a host that nobody has configured: %+v, %v", result, err)
	}
	if err := c.client.Deliver(t.Context(), c.Instance, c.missing(t), nil); err != nil {
		t.Fatal(err)
	}
	if result, err := c.client.Apply(t.Context(), c.Instance, c.request(), nil); err != nil || result.Outcome != api.OutcomeApplied {
		t.Fatalf("got %+v, %v", result, err)
	}
	bad := api.ReleaseRequest{Imported: `imported-certs.pem`}
	if _, err := c.client.Release(t.Context(), c.Instance, bad, nil); err == nil {
		t.Error("a path that is none was taken")
	}
	result, err := c.client.Release(t.Context(), c.Instance, request, nil)
	if err != nil || result.Outcome != api.OutcomeReleased || result.Left == nil {
		t.Fatalf("got %+v, %v", result, err)
	}
	facts, err := c.client.Inspect(t.Context(), c.Instance)
	if err != nil || facts.Configuration.AppliedRevision != "" {
		t.Errorf("the host says that it has %+v, %v", facts, err)
	}
	if _, err := os.Stat(c.local(t, api.Root+`\state`)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state of the agent is left: %v", err)
	}
	if result, err := c.client.Release(t.Context(), c.Instance, request, nil); err != nil || result.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v, %v", result, err)
	}
}

// TestHostileRelease: an answer that is none of a release is no success.
func TestHostileRelease(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{name: "as it should be", answer: `{"outcome":"Released","changed":[],"left":{"routes":["10.0.0.0/8"]}}`},
		{name: "there was nothing", answer: `{"outcome":"Unchanged","changed":[]}`},
		{name: "it cannot be", answer: `{"outcome":"Failed","reason":"StepFailed","error":"no","changed":[]}`},
		{name: "an outcome of something else", answer: `{"outcome":"Removed","changed":[]}`, want: `unknown outcome "Removed"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHostileSite(t, say(`{"event":{"item":"x","state":"Done"}}`+"\n"+`{"result":`+tt.answer+"}\n"))
			_, err := s.client.Release(t.Context(), s.Instance, api.ReleaseRequest{}, nil)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
