// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestReadState: the state tells of a drift until a document puts it right.
func TestReadState(t *testing.T) {
	first, second := bundles(t)
	f := usedHost(t, first)
	look := func(want api.ConfigurationFacts, drift int) {
		t.Helper()
		before := f.mutations
		got, err := ReadState(t.Context(), f, f.clock)
		if err != nil || f.mutations != before {
			t.Fatalf("error %v, changed %v", err, f.log[before:])
		}
		items := 0
		if got.Drift != nil {
			items = len(got.Drift.Repaired) + len(got.Drift.Left)
		}
		if got.AppliedRevision != want.AppliedRevision || got.ApplyingRevision != want.ApplyingRevision || items != drift {
			t.Errorf("got %+v with %d items of drift, want %+v with %d", got, items, want, drift)
		}
	}
	look(api.ConfigurationFacts{}, 0)
	one, two := converge(t, f, first).Revision, ""
	look(api.ConfigurationFacts{AppliedRevision: one}, 0)

	// Something that is repaired, and a program that would have to be sent.
	delete(f.files, `c:\k\kubelet.conf`)
	delete(f.files, `c:\k\overlay.exe`)
	watch(t, f, 1)
	look(api.ConfigurationFacts{AppliedRevision: one}, 2)
	converge(t, f, first)
	look(api.ConfigurationFacts{AppliedRevision: one}, 0)

	delete(f.files, `c:\k\kubelet.conf`)
	watch(t, f, 1)
	look(api.ConfigurationFacts{AppliedRevision: one}, 1)
	f.files[`c:\k\until`] = fakeFile{Content: "x"}
	send(t, f, second)
	r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: "Reboot", Bundle: second})
	if two = r.Revision; r.Outcome != api.OutcomeRebootRequired {
		t.Fatalf("got %+v", r)
	}
	look(api.ConfigurationFacts{AppliedRevision: one, ApplyingRevision: two}, 1)
	f.boot()
	converge(t, f, second)
	look(api.ConfigurationFacts{AppliedRevision: two}, 0)
	if r := engineOf(f).Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("got %+v", r)
	}
	look(api.ConfigurationFacts{}, 0)
}
