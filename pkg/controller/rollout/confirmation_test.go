// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUnconfirmed: a host that waits for a confirmation gets nothing, is not asked, and keeps no other one waiting. The pool says why.
func TestUnconfirmed(t *testing.T) {
	for _, pool := range []poolKey{{"ns", "p"}, {"ns", ""}} {
		of := func(name string, edit func(*host)) host {
			h := host{key: types.NamespacedName{Namespace: "ns", Name: name}, pool: pool, node: true, ready: true}
			edit(&h)
			return h
		}
		d := decide(state{now: rollbackStart, disruptions: 1, hosts: []host{
			of("a", func(h *host) { h.unconfirmed = true }),
			of("b", func(h *host) { h.unconfirmed = true }),
			of("c", func(h *host) { h.update, h.impact = true, v1alpha1.ImpactDrain }),
			of("d", func(h *host) { h.unconfirmed, h.restart = true, v1alpha1.CauseRestartPending }),
		}})
		if len(d.start) != 1 || d.start[0].key.Name != "c" || len(d.ask) != 0 {
			t.Errorf("started are %v, asked %v", d.start, d.ask)
		}
		text := describeWaits(pool, d.waits)
		for _, want := range []string{"a, b, d: It was configured before", "kubectl windows reconfigure NAME -n ns"} {
			if !strings.Contains(text, want) {
				t.Errorf("it does not say %q: %s", want, text)
			}
		}
		if strings.Contains(text, "kubectl windows rollout resume p -n ns") != (pool.name != "") {
			t.Errorf("it says %s", text)
		}
		if moves, stays := movesOn(d.waits); moves || !stays {
			t.Error("it goes on by itself")
		}
	}
}

// TestScheduleUnconfirmed: it is the condition of the instance that says it, and a pause comes before it.
func TestScheduleUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := func(name string) *v1alpha1.WindowsInstance {
			i := needsUpdate(name)
			i.Status.DesiredRevision, i.Status.UnconfirmedSince = i.Status.CurrentRevision, new(metav1.Now())
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConfirmationNeeded})
			return i
		}
		paused := waits("b")
		paused.Spec.Paused = true
		f := newScheduled(t, nil, waits("a"), paused)
		f.pass()
		held := f.blockedBy(poolKey{"ns", "p"})
		if !strings.HasPrefix(held.text, "a: It was configured before its instance or pool p was made") || !held.stays || slices.Contains(strings.Fields(held.text), "b:") {
			t.Errorf("the pool says %q", held.text)
		}
	})
}
