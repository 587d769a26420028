// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: testNamespace, Name: name}
}

func TestSlots(t *testing.T) {
	slots := NewDisruptionSlots(2)
	take := func(name string, disrupted ...types.NamespacedName) (string, int, bool) {
		holders, before, ok := slots.take(keyOf(name), disrupted)
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
		{name: "a", want: true}, // it has it, and there is none left
		{name: "c", wantHolders: "a b"},
		{name: "d", wantHolders: "a b", wantBefore: 1},
		{name: "d", release: "a", wantHolders: "b", wantBefore: 1}, // c came first
		{name: "c", want: true},
		{name: "d", release: "b", want: true},
		{name: "e", release: "d", want: true},
	} {
		if step.release != "" {
			slots.Release(keyOf(step.release))
		}
		holders, before, ok := take(step.name, step.disrupted...)
		if holders != step.wantHolders || before != step.wantBefore || ok != step.want {
			t.Errorf("step %d: %s got %q, %d, %v, want %q, %d, %v", i, step.name, holders, before, ok, step.wantHolders, step.wantBefore, step.want)
		}
	}
	slots.Hold(keyOf("f")) // beyond the limit, as it is disrupted already
	if _, _, ok := take("f"); !ok {
		t.Error("it has a slot")
	}
	slots.Release(keyOf("c"))
	if holders, _, ok := take("g"); ok || holders != "e f" {
		t.Errorf("got %q, %v", holders, ok)
	}
	slots.Release(keyOf("g")) // it does not want one any more
	slots.Release(keyOf("f"))
	if _, _, ok := take("h"); !ok {
		t.Error("one that has gone is waited for")
	}
}

func TestDescribeQueue(t *testing.T) {
	tests := []struct {
		name    string
		holders []types.NamespacedName
		before  int
		want    string
	}{
		{"one", []types.NamespacedName{keyOf("a")}, 0, "Waits for a slot: another host is being changed: a."},
		{"two", []types.NamespacedName{keyOf("a"), {Namespace: "other", Name: "b"}}, 3, "Waits for a slot: 2 other hosts are being changed: a, and 1 in other namespaces. 3 hosts are ahead in the queue."},
		{"one of another namespace", []types.NamespacedName{{Namespace: "other", Name: "b"}}, 0, "Waits for a slot: another host is being changed, in another namespace."},
		{"two of other namespaces", []types.NamespacedName{{Namespace: "other", Name: "b"}, {Namespace: "third", Name: "b"}}, 0, "Waits for a slot: 2 hosts of other namespaces are being changed."},
		{"others come first", nil, 1, "Waits for a slot. 1 host is ahead in the queue."},
		{"many", slices.Repeat([]types.NamespacedName{keyOf("a")}, 7), 0, "Waits for a slot: 7 other hosts are being changed: a, a, a, a, a and 2 more."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := describeQueue(tt.holders, tt.before, testNamespace); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRecordsOfAnotherProcess: a new leader counts what the one before it had begun, and lets
// that go on.
func TestRecordsOfAnotherProcess(t *testing.T) {
	begun := func(impact v1alpha1.ChangeImpact, edit func(*v1alpha1.Operation)) *v1alpha1.WindowsInstance {
		return newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			i.Name, i.UID = "win-2", "uid-2"
			op.Origin, op.Phase, op.Impact, op.Steps, op.Node = v1alpha1.OriginController, v1alpha1.OperationRunning, impact, newSteps(), &v1alpha1.OperationNode{Name: "win-2"}
			op.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepSucceeded
			if edit != nil {
				edit(op)
			}
		})
	}
	waits := func(o *v1alpha1.Operation) { o.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepRunning }
	for _, tt := range []struct {
		name    string
		slots   *Slots
		other   *v1alpha1.WindowsInstance
		counted bool
	}{
		{"services are restarted", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, nil), true},
		{"it waits for that", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, waits), false},
		{"it is drained", NewRestartSlots(1), begun(v1alpha1.ImpactDrain, nil), false},
		{"a person asked for it", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, func(o *v1alpha1.Operation) { o.Origin = v1alpha1.OriginUser }), false},
		{"it is no node", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, func(o *v1alpha1.Operation) { o.Node = nil }), false},
		{"it has ended", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, func(o *v1alpha1.Operation) { o.Phase = v1alpha1.OperationSucceeded }), false},
		{"an earlier release restarts services", NewRestartSlots(1), begun(v1alpha1.ImpactRestart, func(o *v1alpha1.Operation) {
			o.Steps = o.Steps[1:]
			o.FindStep(v1alpha1.StepApply).StartedAt = ptr.To(metav1.Now())
		}), true},
		{"it is about to be cordoned", NewDisruptionSlots(1), begun(v1alpha1.ImpactReboot, nil), true},
		{"it waits to be cordoned", NewDisruptionSlots(1), begun(v1alpha1.ImpactReboot, waits), false},
		{"services are restarted, which drains nothing", NewDisruptionSlots(1), begun(v1alpha1.ImpactRestart, nil), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := newInstance(reconfigureOperation())
			waitsFor := tt.slots.Take(instance, []v1alpha1.WindowsInstance{*instance, *tt.other})
			if got := strings.Contains(waitsFor, "win-2"); got != tt.counted || !got && waitsFor != "" {
				t.Errorf("another host waits for %q", waitsFor)
			}
			tt.slots.Release(client.ObjectKeyFromObject(instance))
			tt.slots.Resume(tt.other)
			if held, _ := tt.slots.Load(); (held == 1) != tt.counted {
				t.Errorf("it holds %d slots again", held)
			}
		})
	}
}

// TestDisrupted: a Node is out of service from when it is cordoned until it is uncordoned.
func TestDisrupted(t *testing.T) {
	const (
		pending   = v1alpha1.StepPending
		running   = v1alpha1.StepRunning
		succeeded = v1alpha1.StepSucceeded
		skipped   = v1alpha1.StepSkipped
	)
	tests := []struct {
		name                    string
		cordon, drain, uncordon v1alpha1.OperationStepState
		phase                   v1alpha1.OperationPhase
		want                    bool
	}{
		{"before", pending, pending, pending, v1alpha1.OperationRunning, false},
		{"it waits for its turn", running, pending, pending, v1alpha1.OperationRunning, false},
		{"cordoned", succeeded, pending, pending, v1alpha1.OperationRunning, true},
		{"cordoned by people", skipped, running, pending, v1alpha1.OperationRunning, true},
		{"drained", succeeded, succeeded, running, v1alpha1.OperationRunning, true},
		{"not needed", skipped, skipped, pending, v1alpha1.OperationRunning, false},
		{"uncordoned", succeeded, succeeded, succeeded, v1alpha1.OperationRunning, false},
		{"over", succeeded, succeeded, pending, v1alpha1.OperationFailed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigureOperation()
			op.Phase, op.Steps = tt.phase, newSteps()
			op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepDrain).State, op.FindStep(v1alpha1.StepUncordon).State = tt.cordon, tt.drain, tt.uncordon
			if got := disrupted(&op); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			steps := op.Steps
			for n := range steps { // as of a release with other steps, or where hosts are only watched
				if op.Steps = steps[n+1:]; op.FindStep(v1alpha1.StepCordon) == nil && disrupted(&op) {
					t.Errorf("it counts with %v", op.Steps)
				}
			}
			op.Type, op.Steps = v1alpha1.OperationReboot, steps
			if disrupted(&op) {
				t.Error("a reboot that somebody asked for counts")
			}
		})
	}
}

// TestNamespacesTakeTurns: a namespace with many hosts does not keep the others waiting until it is done, and
// whoever holds a slot learns that others wait.
func TestNamespacesTakeTurns(t *testing.T) {
	of := func(namespace, name string) *v1alpha1.WindowsInstance {
		return newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) { i.Namespace, i.Name = namespace, name })
	}
	waiting := []*v1alpha1.WindowsInstance{of("greedy", "b"), of("greedy", "c"), of("other", "a"), of("other", "b"), of("third", "a")}
	slots := NewDisruptionSlots(1)
	holder := of("greedy", "a")
	var order []string
	for {
		if waitsFor := slots.Take(holder, nil); waitsFor != "" {
			t.Fatalf("%s: %s", client.ObjectKeyFromObject(holder), waitsFor)
		}
		order = append(order, client.ObjectKeyFromObject(holder).String())
		var next *v1alpha1.WindowsInstance
		for _, i := range waiting {
			if waitsFor := slots.Take(i, nil); waitsFor == "" {
				t.Fatalf("%s has a slot beyond the limit", client.ObjectKeyFromObject(i))
			}
		}
		if want := slices.ContainsFunc(waiting, func(i *v1alpha1.WindowsInstance) bool { return i.Namespace != holder.Namespace }); slots.Awaited(client.ObjectKeyFromObject(holder)) != want {
			t.Errorf("others wait for %s: %v", client.ObjectKeyFromObject(holder), !want)
		}
		slots.Release(client.ObjectKeyFromObject(holder))
		for _, i := range waiting {
			if slots.Take(i, nil) == "" {
				next = i
			}
		}
		if next == nil {
			break
		}
		holder = next
		waiting = slices.DeleteFunc(waiting, func(i *v1alpha1.WindowsInstance) bool { return i == next })
	}
	if got, want := strings.Join(order, " "), "greedy/a other/a third/a greedy/b other/b greedy/c"; got != want {
		t.Errorf("slots went to %s, want %s", got, want)
	}
	if len(slots.turns) != 0 {
		t.Errorf("turns of namespaces that want nothing are kept: %v", slots.turns)
	}
}
