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
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		if held := sumUp(d.waits); held.moves || !held.stays || held.kind != waitsForConfirmation {
			t.Errorf("it goes on by itself: %+v", held)
		}
	}
}

// TestUnconfirmedThatWaits: an update that was recorded before the objects were lost, and has not begun, does not begin then. What is half way or
// broken, or a person has asked for, goes on.
func TestUnconfirmedThatWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*host)
		admit bool
	}{
		"an update":                    {edit: func(*host) {}},
		"half way":                     {edit: func(h *host) { h.begun, h.half = true, true }, admit: true},
		"broken":                       {edit: func(h *host) { h.broken = &v1alpha1.Operation{ID: "op-0"} }, admit: true},
		"a person has asked for it":    {edit: func(h *host) { h.byPerson = true }, admit: true},
		"it restarts services only":    {edit: func(h *host) { h.waits, h.begun = v1alpha1.ImpactRestart, true }},
		"an annotation has it renewed": {edit: func(h *host) { h.waitsWith = v1alpha1.CauseVersionChanged }},
	} {
		h := host{key: types.NamespacedName{Namespace: "ns", Name: "a"}, pool: poolKey{"ns", "p"}, node: true, ready: true, unconfirmed: true, waits: v1alpha1.ImpactDrain}
		tt.edit(&h)
		d := decide(state{now: rollbackStart, disruptions: 1, hosts: []host{h}})
		if (len(d.admit) == 1) != tt.admit || (d.waits[h.key].kind == waitsForConfirmation) == tt.admit {
			t.Errorf("%s: admitted are %v, it waits for %q", name, d.admit, d.waits[h.key].kind)
		}
	}
}

// TestUnconfirmedWhileRolledBack: nobody is told to resume a pool, which would roll out again what broke hosts.
func TestUnconfirmedWhileRolledBack(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{}
	pool.Status.UpdateRevision, pool.Status.RolledBack = "p-2", &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1"}
	key := poolKey{"ns", "p"}
	h := host{key: types.NamespacedName{Namespace: "ns", Name: "a"}, pool: key, node: true, ready: true, unconfirmed: true}
	d := decide(state{now: rollbackStart, disruptions: 1, pools: map[poolKey]policy{key: policyOf(pool, 1)}, hosts: []host{h}})
	if text := describeWaits(key, d.waits); strings.Contains(text, "rollout resume") || !strings.Contains(text, "kubectl windows reconfigure NAME -n ns") {
		t.Errorf("it says %s", text)
	}
}

// TestScheduleLost: the pool of an update that waits for its slot is gone, or another one by now.
func TestScheduleLost(t *testing.T) {
	pool := func(uid types.UID) *v1alpha1.WindowsNodePool {
		return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid}}
	}
	for name, tt := range map[string]struct {
		pool  *v1alpha1.WindowsNodePool
		waits bool
	}{"it is there": {pool: pool("p-1")}, "it was made again": {pool: pool("p-2"), waits: true}, "it is gone": {waits: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := needsUpdate("a")
				i.Status.Pool = &v1alpha1.KnownPool{Name: "p", UID: "p-1"}
				i.Status.Operation = &v1alpha1.Operation{
					ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, RequestedBy: v1alpha1.ControllerRequester, Impact: v1alpha1.ImpactDrain,
					Node: &v1alpha1.OperationNode{Name: "a"}, Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}},
				}
				objects := []client.Object{i}
				if tt.pool != nil {
					objects = append(objects, tt.pool)
				}
				f := newScheduled(t, nil, objects...)
				f.pass()
				if admitted := f.operation("a").Admitted(); admitted == tt.waits {
					t.Errorf("admitted: %t", admitted)
				}
			})
		})
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
