// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestPoolsTakeTurns: hosts whose pods do not leave, and which are due again each time, keep the slot neither from another pool of their namespace,
// whose hosts are younger, nor from the others of their own.
func TestPoolsTakeTurns(t *testing.T) {
	got := takeTurns(t, map[string]time.Duration{"a": 10 * time.Minute, "b": 10 * time.Minute}, "a-0", "a-1", "a-2", "a-3", "a-4", "b-0", "b-1", "b-2")
	if want := "a-0 b-0 a-1 b-1 a-2 b-2 a-3 a-4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTurnsByTime: a pool whose hosts keep the slot for hours, as with updates of Windows, has it again when another one has had it for as long.
func TestTurnsByTime(t *testing.T) {
	got := takeTurns(t, map[string]time.Duration{"a": 130 * time.Minute, "b": 30 * time.Minute}, "a-0", "a-1", "b-0", "b-1", "b-2", "b-3", "b-4", "b-5")
	if want := "a-0 b-0 b-1 b-2 b-3 a-1 b-4 b-5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// takeTurns returns the order in which hosts get the only slot. Each has it for as long as those of its pool do, which is its first letter. They
// fail in pool a, where they are due again at once. They have waited before that, for as long as they may with updates of Windows.
func takeTurns(t *testing.T, takes map[string]time.Duration, hosts ...string) string {
	t.Helper()
	var instances []*v1alpha1.WindowsInstance
	for n, name := range hosts {
		i := needsUpdate(name)
		i.Spec.PoolRef.Name, i.CreationTimestamp = name[:1], *at(time.Duration(n) * time.Second)
		instances = append(instances, i)
	}
	const waited = 4 * time.Hour
	now := testNow.Add(time.Hour)
	var before decision
	pass := func() decision {
		s := state{now: now, disruptions: 1, pools: map[poolKey]policy{{"ns", "a"}: policyOf(nil, 4), {"ns", "b"}: policyOf(nil, 4)}, served: before.served, heldSince: before.heldSince}
		for _, i := range instances {
			h := newHost(i)
			h.update, h.impact = !h.updated && !i.Status.Operation.Active(), v1alpha1.ImpactDrain
			s.hosts = append(s.hosts, h)
		}
		before = decide(s)
		return before
	}
	var began []string
	for range hosts {
		d := pass()
		if len(d.start) != 1 {
			t.Fatalf("after %v: %+v", began, d.start)
		}
		i := instances[slices.IndexFunc(instances, func(i *v1alpha1.WindowsInstance) bool { return client.ObjectKeyFromObject(i) == d.start[0].key })]
		if err := recordOperation(i, d.start[0], now); err != nil {
			t.Fatal(err)
		}
		op := i.Status.Operation
		op.StartedAt, op.Impact, op.Node = new(metav1.NewTime(now)), v1alpha1.ImpactDrain, &v1alpha1.OperationNode{Name: i.Name}
		op.Phase = v1alpha1.OperationRunning
		op.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning, StartedAt: new(metav1.NewTime(now.Add(-waited)))}}
		op.RequestedAt, op.StartedAt = metav1.NewTime(now.Add(-waited)), new(metav1.NewTime(now.Add(-waited)))
		pass()
		now = now.Add(takes[i.Spec.PoolRef.Name])
		pass() // as there are while it runs
		op.Phase, op.FinishedAt = v1alpha1.OperationFailed, new(metav1.NewTime(now))
		if i.Spec.PoolRef.Name == "b" {
			op.Phase, i.Status.CurrentRevision = v1alpha1.OperationSucceeded, i.Status.DesiredRevision
		}
		began = append(began, i.Name)
	}
	return strings.Join(began, " ")
}
