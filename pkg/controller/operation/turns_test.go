// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: testNamespace, Name: name}
}

func TestTurns(t *testing.T) {
	turns := newTurns(2)
	take := func(name string, disrupted ...types.NamespacedName) (string, int, bool) {
		holders, before, ok := turns.take(keyOf(name), disrupted)
		names := make([]string, len(holders))
		for i, h := range holders {
			names[i] = h.Name
		}
		return strings.Join(names, " "), before, ok
	}
	for i, step := range []struct {
		name        string
		release     string
		disrupted   []types.NamespacedName
		wantHolders string
		wantBefore  int
		want        bool
	}{
		{name: "a", want: true},
		{name: "a", want: true}, // it has it
		{name: "b", disrupted: []types.NamespacedName{keyOf("z")}, wantHolders: "a z"}, // another process had begun z
		{name: "b", disrupted: []types.NamespacedName{keyOf("b")}, want: true},         // its own record does not count
		{name: "c", wantHolders: "a b"},
		{name: "d", wantHolders: "a b", wantBefore: 1},
		{name: "d", release: "a", wantHolders: "b", wantBefore: 1}, // c came first
		{name: "c", want: true},
		{name: "d", release: "b", want: true},
		{name: "e", release: "d", want: true},
	} {
		if step.release != "" {
			turns.release(keyOf(step.release))
		}
		holders, before, ok := take(step.name, step.disrupted...)
		if holders != step.wantHolders || before != step.wantBefore || ok != step.want {
			t.Errorf("step %d: %s got %q, %d, %v, want %q, %d, %v", i, step.name, holders, before, ok, step.wantHolders, step.wantBefore, step.want)
		}
	}
	turns.hold(keyOf("f")) // beyond the limit, as it is disrupted already
	turns.release(keyOf("c"))
	if holders, _, ok := take("g"); ok || holders != "e f" {
		t.Errorf("got %q, %v", holders, ok)
	}
	turns.release(keyOf("g")) // it does not want one any more
	turns.release(keyOf("f"))
	if _, _, ok := take("h"); !ok {
		t.Error("one that has gone is waited for")
	}
}

func TestWaitsForTurn(t *testing.T) {
	tests := []struct {
		name    string
		holders []types.NamespacedName
		before  int
		want    string
	}{
		{"one", []types.NamespacedName{keyOf("a")}, 0, "Waits for its turn: another host is being changed: a."},
		{"two", []types.NamespacedName{keyOf("a"), {Namespace: "other", Name: "b"}}, 3, "Waits for its turn: 2 other hosts are being changed: a, other/b. In the queue before it: 3."},
		{"others come first", nil, 1, "Waits for its turn. In the queue before it: 1."},
		{"many", slices.Repeat([]types.NamespacedName{keyOf("a")}, 7), 0, "Waits for its turn: 7 other hosts are being changed: a, a, a, a, a and 2 more."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := waitsForTurn(tt.holders, tt.before, testNamespace); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDisrupts: a Node is out of service from when it is cordoned until it is uncordoned.
func TestDisrupts(t *testing.T) {
	const (
		pending   = windowsv1alpha1.StepPending
		running   = windowsv1alpha1.StepRunning
		succeeded = windowsv1alpha1.StepSucceeded
		skipped   = windowsv1alpha1.StepSkipped
	)
	tests := []struct {
		name                    string
		cordon, drain, uncordon windowsv1alpha1.OperationStepState
		phase                   windowsv1alpha1.OperationPhase
		want                    bool
	}{
		{"before", pending, pending, pending, windowsv1alpha1.OperationRunning, false},
		{"it waits for its turn", running, pending, pending, windowsv1alpha1.OperationRunning, false},
		{"cordoned", succeeded, pending, pending, windowsv1alpha1.OperationRunning, true},
		{"cordoned by people", skipped, running, pending, windowsv1alpha1.OperationRunning, true},
		{"drained", succeeded, succeeded, running, windowsv1alpha1.OperationRunning, true},
		{"not needed", skipped, skipped, pending, windowsv1alpha1.OperationRunning, false},
		{"uncordoned", succeeded, succeeded, succeeded, windowsv1alpha1.OperationRunning, false},
		{"over", succeeded, succeeded, pending, windowsv1alpha1.OperationFailed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigureOperation()
			op.Phase, op.Steps = tt.phase, newSteps(plan(&op, true))
			findStep(&op, stepCordon).State, findStep(&op, stepDrain).State, findStep(&op, stepUncordon).State = tt.cordon, tt.drain, tt.uncordon
			if got := disrupts(&op); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			op.Type = windowsv1alpha1.OperationReboot
			if disrupts(&op) {
				t.Error("a reboot that somebody asked for counts")
			}
		})
	}
}

// TestOneAtATime: a host waits while another one is disrupted, and goes on when that is over.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	other := newInstance(reconfigureOperation(), func(i *windowsv1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		op := i.Status.Operation
		op.Phase, op.Steps = windowsv1alpha1.OperationRunning, newSteps(plan(op, true))
		for _, name := range []string{stepCordon, stepDrain} {
			findStep(op, name).State = windowsv1alpha1.StepSucceeded
		}
	})
	f := newFixture(t, newInstance(reconfigureOperation()), other)
	f.configure()
	f.host.impact = config.ImpactDrain
	r, _ := f.process()
	f.reconcile(r)
	f.eventually("it to wait", func() bool {
		return f.get().Status.Operation.Message == "Waits for its turn: another host is being changed: win-2."
	})
	if f.node().Spec.Unschedulable || f.drain.runs > 0 {
		t.Error("it does not wait")
	}
	if err := f.raw.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if op := f.waitForEnd(); op.Phase != windowsv1alpha1.OperationSucceeded || f.drain.runs != 1 {
		t.Errorf("it is %s: %s", op.Phase, op.Message)
	}
	f.eventually("the turn to be given back", func() bool {
		held, waiting := r.turns.load()
		return held+waiting == 0
	})
}

// TestServicesAreRestartedOnAFewHosts: what restarts services reaches a limited number of
// hosts at the same time, and none while one of the pool is broken by it; what a person
// asks for does not wait.
func TestServicesAreRestartedOnAFewHosts(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  string
		// broken: there is another host of the pool, which is. Otherwise another one has the
		// only turn.
		broken bool
		waits  string
	}{
		{"no turn is free", windowsv1alpha1.ControllerRequester, false, "Waits for its turn: another host is being changed: win-9."},
		{"one is broken", windowsv1alpha1.ControllerRequester, true, "setting up host win-2 of the same pool failed"},
		{"a person asks for it", "alice", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var others []client.Object
			if tt.broken {
				others = append(others, brokenNeighbor())
			}
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(tt.who)), others...)
			f.configure()
			f.host.impact = config.ImpactRestart
			r, _ := f.process()
			r.restarts = newTurns(1)
			busy := keyOf("win-9")
			if !tt.broken {
				r.restarts.hold(busy)
			}
			f.reconcile(r)
			if tt.waits != "" {
				f.eventually("it to wait", func() bool { return strings.Contains(f.get().Status.Operation.Message, tt.waits) })
				if findStep(f.get().Status.Operation, stepApply).State != windowsv1alpha1.StepRunning || wasApplied(f) {
					t.Error("it does not wait")
				}
				if tt.broken {
					return
				}
				r.restarts.release(busy)
			}
			if op := f.waitForEnd(); op.Phase != windowsv1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			f.eventually("the turn to be given back", func() bool {
				held, waiting := r.restarts.load()
				return held+waiting == 0
			})
		})
	}
}

// wasApplied says whether the host was configured.
func wasApplied(f *fixture) bool {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	return len(f.host.applies) > 0
}
