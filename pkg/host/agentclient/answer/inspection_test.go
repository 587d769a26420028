// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package answer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestClockSkew(t *testing.T) {
	asked := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return asked.Add(time.Duration(seconds * float64(time.Second))) }
	for _, tt := range []struct {
		name          string
		now, answered time.Time // by the clock of the host
		took          float64   // seconds by ours
		want          time.Duration
	}{
		{"exact, no time on the way", at(0), at(10), 10, 0},
		{"exact, a second each way", at(1), at(11), 12, 0},
		{"ahead", at(61), at(71), 12, time.Minute},
		{"behind", at(-59), at(-49), 12, -time.Minute},
		{"an agent that does not say when it answered", at(61), time.Time{}, 2, time.Minute},
		{"all of the way there", at(2), at(2), 2, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := clockSkew(api.TimeFacts{Now: tt.now, Answered: tt.answered}, Exchange{asked, at(tt.took)}); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestInspectUpdates(t *testing.T) {
	searched := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	got := updatesOf(&api.WindowsUpdates{
		SearchedAt: searched, Total: 3, Security: 1, Error: "no network",
		Pending: []api.Update{
			{ID: "1", Revision: 200, Title: "Cumulative update", KBs: []string{"KB1"}, Security: true, Severity: "Critical", Downloaded: true},
			{ID: "2", Revision: 201, Title: "Update"},
			{ID: "3", Revision: 200, Title: "Another one"},
		},
		Failures: []api.UpdateFailure{
			{ID: "2", Revision: 200, Error: "of an earlier revision"},
			{ID: "1", Revision: 200, Error: "it cannot be installed: HRESULT 0x80073712"},
		},
	})
	want := &v1alpha1.WindowsUpdatesInspection{
		SearchedAt: new(metav1.NewTime(searched)), Pending: 3, Security: 1, Message: "no network",
		Updates: []v1alpha1.UpdateInspection{
			{Title: "Cumulative update", Articles: []string{"KB1"}, Security: true, Severity: "Critical", Downloaded: true, Failure: "it cannot be installed: HRESULT 0x80073712"},
			{Title: "Update"},
			{Title: "Another one"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := updatesOf(nil); got != nil {
		t.Errorf("of a host that says nothing: %+v", got)
	}
}

func TestInspectConfiguration(t *testing.T) {
	found := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	got := configurationOf(api.ConfigurationFacts{
		AppliedRevision: "one", ApplyingRevision: "two",
		Drift: &api.Drift{
			Time: found, Revision: "one", Error: "access is denied",
			Repaired: []api.Item{{Kind: api.KindService, Name: "kubelet", Action: api.ActionUpdate, Reason: "it does not run"}},
			Left:     []api.Item{{Kind: api.KindFile, Name: `C:\k\x`, Action: api.ActionCreate}},
		},
	})
	want := v1alpha1.ConfigurationInspection{
		AppliedRevision: "one", ApplyingRevision: "two",
		Drift: &v1alpha1.DriftInspection{
			Time: metav1.NewTime(found), Repaired: []string{"Update Service kubelet: it does not run"}, Left: []string{`Create File C:\k\x`}, Message: "access is denied",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := configurationOf(api.ConfigurationFacts{}); got != (v1alpha1.ConfigurationInspection{}) {
		t.Errorf("of a host that was never set up: %+v", got)
	}
}
