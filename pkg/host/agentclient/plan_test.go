// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func TestPlanIsTruthfulAndChangesNothing(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	actions := func() []string {
		t.Helper()
		plan, err := s.newClient(t).Plan(t.Context(), s.Instance, nil)
		if err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, change := range plan {
			if change.Impact != v1alpha1.ImpactNone || change.Message == "" || strings.Contains(change.Message, "What else") || change.Name != s.client.AgentPath() {
				t.Errorf("got %+v", change)
			}
			actions = append(actions, change.Action+" "+change.Kind)
		}
		return actions
	}
	check := func(when string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, actions()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("before the first contact", []string{"Create File"})
	if _, err := os.Stat(s.agentPath(t)); !os.IsNotExist(err) {
		t.Errorf("a plan put the agent on the host: %v", err)
	}
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	check("with the agent there", nil)
	if err := os.WriteFile(s.agentPath(t), []byte("MZ, cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("with another file in its place", []string{"Update File"})
	s.SetFault(t, winhost.Fault{ResetAt: "session"})
	if plan, err := s.newClient(t).Plan(t.Context(), s.Instance, nil); hostsite.Reason(err) == "" || plan != nil {
		t.Errorf("a host that cannot be inspected: %+v, %v", plan, err)
	}
	s.SetFault(t, winhost.Fault{})
	s.Secrets["operator/cloud-private-key"] = nil
	if _, err := s.newClient(t).Plan(t.Context(), s.Instance, nil); err == nil {
		t.Error("a plan without credentials: got no error")
	}
}

// TestPlanOfALostHost: a connection that is lost while the agent is verified says nothing about the agent.
func TestPlanOfALostHost(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if _, err := s.client.Facts(t.Context(), s.Instance); err != nil {
		t.Fatal(err)
	}
	s.SetFault(t, winhost.Fault{ResetAt: "exec"})
	if plan, err := s.client.Plan(t.Context(), s.Instance, nil); hostsite.Reason(err) == "" || plan != nil {
		t.Errorf("got %+v, %v", plan, err)
	}
}

// TestPlanConfiguration: what a host would be set up with is known once the agent is there.
func TestPlanConfiguration(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	changes, err := c.client.Plan(t.Context(), c.Instance, &c.bundle)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Message, "What else would change is not known before that") {
		t.Errorf("without the agent: %+v, %v", changes, err)
	}
	if _, err := os.Stat(c.agentPath(t)); !os.IsNotExist(err) {
		t.Errorf("a plan put the agent on the host: %v", err)
	}
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	changes, err = c.client.Plan(t.Context(), c.Instance, &c.bundle)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, change := range changes {
		if change.Message == "" || change.Impact == "" || strings.Contains(change.Message, secretToken) {
			t.Errorf("got %+v", change)
		}
		got[change.Name] = change.Action + " " + change.Kind
	}
	want := map[string]string{
		"kubelet": "Create Service", `C:\k`: "Create Directory", `C:\var\log\kubelet`: "Create Directory", `C:\k\kubelet.conf`: "Create File",
		`C:\k\bootstrap-kubeconfig`: "Create File", `C:\k\` + compressible: "Create File", `C:\k\` + random: "Create File",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.content(t, `C:\k\kubelet.conf`); got != nil {
		t.Errorf("a plan wrote a file: %s", got)
	}
}

// TestHostilePlanAnswer: what a host says that it would do is bounded, has no secret, and is refused if it
// is about something else.
func TestHostilePlanAnswer(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	revision, err := c.bundle.Document.Revision()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(revision, kind string, items int) (*api.Plan, error) {
		item := `{"kind":"File","name":"x","action":"` + kind + `","impact":"None","reason":"token ` + secretToken + `"}`
		s := newHostileSite(t, say(`{"revision":"`+revision+`","impact":"None","items":[`+strings.Repeat(item+",", items-1)+item+"]}\n"))
		return s.client.PlanConfiguration(t.Context(), s.Instance, &c.bundle)
	}
	const many = 1000 // certificates of a cluster
	plan, err := ask(revision, "Create", many)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Items) != many || plan.Items[0].Reason != "token [redacted]" {
		t.Errorf("got %d items, the first one is %+v", len(plan.Items), plan.Items[0])
	}
	for name, answer := range map[string]func() (*api.Plan, error){
		"another revision": func() (*api.Plan, error) { return ask("other", "Create", 1) },
		"unknown action":   func() (*api.Plan, error) { return ask(revision, "Format", 1) },
	} {
		if plan, err := answer(); plan != nil || err == nil {
			t.Errorf("%s: got %+v, %v", name, plan, err)
		} else if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Step != StepRun {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlannedChanges(t *testing.T) {
	got := plannedChanges(&api.Plan{
		Reboot: []string{"Create Feature Containers", "Create Hostname win-1"},
		Items: []api.Item{
			{Kind: api.KindFile, Name: `C:\k\x`, Action: api.ActionUpdate, Impact: config.ImpactDrain, Services: []string{"kubelet", "kube-proxy"}, Reason: "its content differs"},
			{Kind: api.KindFile, Name: `C:\k\y`, Action: api.ActionDelete, Impact: config.ImpactNone, Reason: "it is not wanted"},
		},
	}, "10.1.42.1")
	want := []v1alpha1.PlannedChange{
		{Kind: KindHost, Name: "10.1.42.1", Action: "Update", Impact: v1alpha1.ImpactReboot,
			Message: "It must be restarted before anything else is done, for Create Feature Containers, Create Hostname win-1. The changes below are those known to follow."},
		{Kind: "File", Name: `C:\k\x`, Action: "Update", Impact: v1alpha1.ImpactDrain, Message: "its content differs; restarted for it: kubelet, kube-proxy"},
		{Kind: "File", Name: `C:\k\y`, Action: "Delete", Impact: v1alpha1.ImpactNone, Message: "it is not wanted"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAgentPath(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	_, digest := s.client.Agent()
	if got, want := s.client.AgentPath(), `C:\Windows\windows-node-agent\windows-node-agent-`+digest+".exe"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := New(Options{Pool: s.Pool}).AgentPath(); got != "" {
		t.Errorf("without an agent: got %s", got)
	}
}
