// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// adoption is a request to take a host over that has the bundle from somebody else.
func (c *configurable) adoption() *api.AdoptRequest {
	return &api.AdoptRequest{
		Adoption: api.Adoption{
			Revision: "other-1", NodeName: "win-1", Manager: "manager", Services: []string{"kubelet"},
			Requires: []api.RequiredService{{Name: "kubelet", Contains: []string{`C:\k\` + compressible}}},
		},
		Bundle: c.bundle,
	}
}

// TestAdopt: a host that others have configured says that it is ours, with the revision of the request; one that is not equivalent
// says why it is not. Neither is an error: the host has answered.
func TestAdopt(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	refused := func(request *api.AdoptRequest, want string) {
		t.Helper()
		result, err := c.client.Adopt(t.Context(), c.Instance, request, nil)
		if err != nil || result.Outcome != api.OutcomeFailed || result.Reason != api.ReasonConflict || !strings.Contains(result.Error, want) {
			t.Errorf("got %+v, %v, want %q", result, err, want)
		}
	}
	refused(c.adoption(), "there is no service kubelet")

	if err := c.client.Deliver(t.Context(), c.Instance, c.missing(t), nil); err != nil {
		t.Fatal(err)
	}
	if result, err := c.client.Apply(t.Context(), c.Instance, c.request(), nil); err != nil || result.Outcome != api.OutcomeApplied {
		t.Fatalf("got %+v, %v", result, err)
	}
	refused(c.adoption(), "has configured the host before")
	if err := os.RemoveAll(c.local(t, api.Root+`\state`)); err != nil { // so that nobody knows who did
		t.Fatal(err)
	}
	other := c.adoption()
	other.Adoption.Requires[0].Contains = []string{`C:\theirs\kubelet.exe`}
	refused(other, "service kubelet does not run with")
	changes, err := c.client.PlanUpdateOfAdopted(t.Context(), c.Instance, other)
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != StepRefused || !strings.Contains(err.Error(), "service kubelet does not run with") {
		t.Errorf("the plan of one that cannot be adopted: %+v, %v", changes, err)
	}
	if err := os.WriteFile(c.local(t, `C:\k\theirs.txt`), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	more := c.adoption()
	more.Adoption.Files = []string{`C:\k\theirs.txt`}
	changes, err = c.client.PlanUpdateOfAdopted(t.Context(), c.Instance, more)
	if err != nil || !slices.ContainsFunc(changes, func(p v1alpha1.PlannedChange) bool { return p.Action == "Delete" && p.Name == `C:\k\theirs.txt` }) {
		t.Errorf("the plan: %+v, %v", changes, err)
	}

	result, err := c.client.Adopt(t.Context(), c.Instance, c.adoption(), nil)
	if err != nil || result.Outcome != api.OutcomeApplied || result.Revision != "other-1" {
		t.Fatalf("got %+v, %v", result, err)
	}
	if result, err := c.client.Adopt(t.Context(), c.Instance, c.adoption(), nil); err != nil || result.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v, %v", result, err)
	}
	facts, err := c.client.Inspect(t.Context(), c.Instance)
	if err != nil || facts.Configuration.AppliedRevision != "other-1" {
		t.Errorf("the host says that it has %+v, %v", facts, err)
	}
	var events []api.Event
	result, err = c.client.RestartServices(t.Context(), c.Instance, func(e api.Event) { events = append(events, e) })
	if err != nil || result.Outcome != api.OutcomeApplied || len(result.Changed) != 1 || len(events) == 0 {
		t.Errorf("restarted: %+v, %v", result, err)
	}
}

// TestHostileAdoption: an answer that is none of an adoption is no success, and no answer has a secret.
func TestHostileAdoption(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	for _, tt := range []struct{ name, answer, want, failure string }{
		{name: "as it should be", answer: `{"outcome":"Applied","revision":"other-1","changed":[]}`},
		{name: "it was so before", answer: `{"outcome":"Unchanged","revision":"other-1","changed":[]}`},
		{name: "it cannot be", answer: `{"outcome":"Failed","reason":"Conflict","error":"no network","changed":[]}`, failure: "no network"},
		{name: "it cannot be, with a secret", answer: `{"outcome":"Failed","reason":"Conflict","error":"no ` + secretToken + `","changed":[]}`, failure: "no "},
		{name: "the revision of the document", answer: `{"outcome":"Applied","revision":"REVISION","changed":[]}`, want: "other-1 was requested"},
		{name: "no revision", answer: `{"outcome":"Applied","changed":[]}`, want: "other-1 was requested"},
		{name: "an outcome of something else", answer: `{"outcome":"ImpactExceeded","revision":"other-1"}`, want: `unknown outcome "ImpactExceeded"`},
		{name: "an outcome that nobody knows", answer: `{"outcome":"Adopted","revision":"other-1"}`, want: `unknown outcome "Adopted"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := c.adoption()
			revision, err := request.Bundle.Document.Revision()
			if err != nil {
				t.Fatal(err)
			}
			s := newHostileSite(t, say(`{"event":{"item":"x","state":"Done"}}`+"\n"+`{"result":`+strings.ReplaceAll(tt.answer, "REVISION", revision)+"}\n"))
			result, err := s.client.Adopt(t.Context(), s.Instance, request, nil)
			if tt.want == "" {
				if err != nil || !strings.HasPrefix(result.Error, tt.failure) || (result.Error == "") != (tt.failure == "") || strings.Contains(result.Error, secretToken) {
					t.Errorf("got %+v, %v", result, err)
				}
				return
			}
			if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestHostileAdoptionPlan: an answer that is no plan of the document is none, and no answer has a secret.
func TestHostileAdoptionPlan(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	for name, tt := range map[string]struct{ answer, step, want string }{
		"it cannot be":      {`{"error":"no ` + secretToken + `"}`, StepRefused, "its answer is no: no [redacted]"},
		"nothing":           {`{}`, StepRun, "it answers no plan, and no reason"},
		"of something else": {`{"plan":{"revision":"other","impact":"None","items":[]}}`, StepRun, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHostileSite(t, say(tt.answer+"\n"))
			plan, err := s.client.PlanAdoption(t.Context(), s.Instance, c.adoption())
			if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != tt.step || plan != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v", plan, err)
			}
		})
	}
}
