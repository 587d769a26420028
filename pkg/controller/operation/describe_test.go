// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
)

// TestDescribePlan: who decides whether a change may wait reads what it costs.
func TestDescribePlan(t *testing.T) {
	item := api.Item{Kind: api.KindFile, Name: "a", Action: api.ActionUpdate, Impact: config.ImpactRestart, Reason: "it differs"}
	file := api.PayloadFile{Name: "kubelet.exe", Size: 5<<20 + 1}
	for _, tt := range []struct {
		plan       api.Plan
		wantImpact v1alpha1.ChangeImpact
		want       string
	}{
		{api.Plan{Impact: config.ImpactNone}, v1alpha1.ImpactNone, "The host has its desired configuration."},
		{api.Plan{Impact: config.ImpactRestart, Items: []api.Item{item}}, v1alpha1.ImpactRestart, "Changes: 1, their impact is Restart."},
		{
			api.Plan{Impact: config.ImpactRestart, Items: []api.Item{item, item}, Restarts: []string{"kubelet", "kube-proxy"}}, v1alpha1.ImpactRestart,
			"Changes: 2, their impact is Restart. Services that are restarted: kubelet, kube-proxy.",
		},
		{
			api.Plan{Impact: config.ImpactNone, Reboot: []string{"feature Containers", "the computer name"}}, v1alpha1.ImpactReboot,
			"Changes: 0, their impact is Reboot. Windows has to be restarted: feature Containers; the computer name.",
		},
		{api.Plan{Impact: config.ImpactNone, Payload: []api.PayloadFile{file}}, v1alpha1.ImpactNone, "Changes: 0, their impact is None. Files to send: 1, 6 MiB."},
		{
			api.Plan{Impact: config.ImpactDrain, Items: []api.Item{item}, Payload: []api.PayloadFile{file, file}}, v1alpha1.ImpactDrain,
			"Changes: 1, their impact is Drain. Files to send: 2, 11 MiB.",
		},
	} {
		impact := planImpact(&tt.plan)
		if got := describePlan(&tt.plan, impact); got != tt.want || impact != tt.wantImpact {
			t.Errorf("got %s, %q, want %s, %q", impact, got, tt.wantImpact, tt.want)
		}
	}
	for n, want := range []string{"0 changes were made.", "1 change was made.", "2 changes were made."} {
		if got := describeChanges(make([]api.Item, n)); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// TestExceeding: what a host refuses to do without a drain is named, and what it would do is not.
func TestExceeding(t *testing.T) {
	if got := exceeding(nil); len(got) != 0 {
		t.Errorf("without a plan: got %q", got)
	}
	p := &api.Plan{}
	for _, impact := range []config.Impact{config.ImpactNone, config.ImpactRestart, config.ImpactDrain, config.ImpactReboot} {
		p.Items = append(p.Items, api.Item{Kind: api.KindFile, Name: string(impact), Action: api.ActionUpdate, Impact: impact, Reason: "it differs"})
	}
	if diff := cmp.Diff([]string{p.Items[2].String() + ": it differs", p.Items[3].String() + ": it differs"}, exceeding(p)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestFailedOnTheHost: what the host says comes with what to do, where that is known.
func TestFailedOnTheHost(t *testing.T) {
	for reason, want := range map[api.FailureReason]string{
		api.ReasonConflict:  "the host cannot be changed: why. Move what is in the way aside, or use another host",
		api.ReasonInventory: "the host cannot be changed because the inventory of what is ours on it cannot be read: why",
		api.ReasonSpace:     "there is no room on the host: why. Free space, or make the disk larger",
		api.ReasonStep:      "changing the host failed: why",
		api.ReasonPayload:   "changing the host failed: why",
	} {
		if got := failed(&api.Result{Reason: reason, Error: "why"}).Error(); got != want {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
}

// TestInTheWay: all that is wrong is said at once, and what is only worth knowing keeps
// nobody from going on.
func TestInTheWay(t *testing.T) {
	finding := func(severity preflight.Severity, message string) preflight.Finding {
		return preflight.Finding{Severity: severity, Message: message}
	}
	for _, tt := range []struct {
		name     string
		findings []preflight.Finding
		want     []string
	}{
		{"it is fit", nil, nil},
		{"worth knowing", []preflight.Finding{finding(preflight.Warning, "old")}, nil},
		{"it is unfit", []preflight.Finding{finding(preflight.Error, "too little memory"), finding(preflight.Warning, "old"), finding(preflight.Error, "no room")}, []string{"too little memory", "no room"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, inTheWay(tt.findings)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
