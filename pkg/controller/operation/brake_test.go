// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// reconfigured is a configuration that has ended, and failed while the host was changed
// if it failed.
func reconfigured(phase windowsv1alpha1.OperationPhase, impact windowsv1alpha1.ChangeImpact) windowsv1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Impact, op.Steps = "op-"+strings.ToLower(string(phase)), phase, impact, newSteps(plan(&op, true))
	findStep(&op, stepApply).StartedAt = ptr.To(metav1.Now())
	op.Node = &windowsv1alpha1.OperationNode{Name: "win-2"}
	return op
}

// unreached is a configuration that did not come as far as the host, whose Node was found
// cordoned.
func unreached() windowsv1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Steps = "op-unreached", windowsv1alpha1.OperationFailed, newSteps(plan(&op, true))
	op.Node = &windowsv1alpha1.OperationNode{Name: "win-2", WasUnschedulable: true}
	return op
}

func TestBroke(t *testing.T) {
	const (
		failed    = windowsv1alpha1.OperationFailed
		succeeded = windowsv1alpha1.OperationSucceeded
		drain     = windowsv1alpha1.ImpactDrain
	)
	inTheDrain := reconfigured(failed, drain)
	findStep(&inTheDrain, stepApply).StartedAt = nil
	joining := reconfigured(failed, windowsv1alpha1.ImpactReboot)
	joining.Node = nil
	reboot := reconfigured(failed, drain)
	reboot.Type = windowsv1alpha1.OperationReboot
	open := unreached()
	open.Node.WasUnschedulable = false
	tests := []struct {
		name string
		// operations are those of the host, the newest first.
		operations []windowsv1alpha1.Operation
		want       string
	}{
		{"none", nil, ""},
		{"a drain", []windowsv1alpha1.Operation{reconfigured(failed, drain)}, "op-failed"},
		{"a restart of Windows", []windowsv1alpha1.Operation{reconfigured(failed, windowsv1alpha1.ImpactReboot)}, "op-failed"},
		{"a restart of services", []windowsv1alpha1.Operation{reconfigured(failed, windowsv1alpha1.ImpactRestart)}, "op-failed"},
		{"nothing noticeable", []windowsv1alpha1.Operation{reconfigured(failed, windowsv1alpha1.ImpactNone)}, ""},
		{"a host that was no node", []windowsv1alpha1.Operation{joining}, ""},
		{"success", []windowsv1alpha1.Operation{reconfigured(succeeded, drain)}, ""},
		{"success since", []windowsv1alpha1.Operation{reconfigured(succeeded, windowsv1alpha1.ImpactNone), reconfigured(failed, drain)}, ""},
		{"success before", []windowsv1alpha1.Operation{reconfigured(failed, drain), reconfigured(succeeded, drain)}, "op-failed"},
		{"pods did not leave", []windowsv1alpha1.Operation{inTheDrain}, ""},
		{"somebody canceled it", []windowsv1alpha1.Operation{reconfigured(windowsv1alpha1.OperationCanceled, drain)}, ""},
		{"a reboot that somebody asked for", []windowsv1alpha1.Operation{reboot}, ""},
		{"it is tried again", []windowsv1alpha1.Operation{reconfigured(windowsv1alpha1.OperationRunning, drain), reconfigured(failed, drain)}, "op-failed"},
		{"it cannot be reached since", []windowsv1alpha1.Operation{unreached(), unreached(), reconfigured(failed, drain)}, "op-failed"},
		{"it cannot be reached for so long that the rest is forgotten", slices.Repeat([]windowsv1alpha1.Operation{unreached()}, windowsv1alpha1.MaxHistory+1), "op-unreached"},
		{"it never could be reached", slices.Repeat([]windowsv1alpha1.Operation{unreached()}, windowsv1alpha1.MaxHistory), ""},
		{"it cannot be reached and nobody cordoned it", slices.Repeat([]windowsv1alpha1.Operation{open}, windowsv1alpha1.MaxHistory+1), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status := &windowsv1alpha1.WindowsInstanceStatus{}
			if len(tt.operations) > 0 {
				status.Operation, status.History = &tt.operations[0], tt.operations[1:]
			}
			got := ""
			if op := broke(status); op != nil {
				got = op.ID
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func inPool(name string) change {
	return func(i *windowsv1alpha1.WindowsInstance) {
		i.Spec.PoolRef = &windowsv1alpha1.PoolReference{Name: name}
	}
}

func askedForBy(who string) change {
	return func(i *windowsv1alpha1.WindowsInstance) { i.Status.Operation.RequestedBy = who }
}

// brokenNeighbor is another host of the pool, which a configuration broke.
func brokenNeighbor(changes ...change) *windowsv1alpha1.WindowsInstance {
	return newInstance(reconfigureOperation(), append([]change{inPool("pool"), func(i *windowsv1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		*i.Status.Operation = reconfigured(windowsv1alpha1.OperationFailed, windowsv1alpha1.ImpactDrain)
	}}, changes...)...)
}

func TestBrake(t *testing.T) {
	tests := []struct {
		name     string
		instance *windowsv1alpha1.WindowsInstance
		other    *windowsv1alpha1.WindowsInstance
		want     bool
	}{
		{"the same pool", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester)), brokenNeighbor(), true},
		{"a person asks", newInstance(reconfigureOperation(), inPool("pool")), brokenNeighbor(), false},
		{"another pool", newInstance(reconfigureOperation(), inPool("other"), askedForBy(windowsv1alpha1.ControllerRequester)), brokenNeighbor(), false},
		{"no pool", newInstance(reconfigureOperation(), askedForBy(windowsv1alpha1.ControllerRequester)), brokenNeighbor(), false},
		{"a pool of the same name", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *windowsv1alpha1.WindowsInstance) { i.Namespace = "others" }), false},
		{"the other one is going", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *windowsv1alpha1.WindowsInstance) { i.DeletionTimestamp = ptr.To(metav1.Now()) }), false},
		{"it broke itself", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester), func(i *windowsv1alpha1.WindowsInstance) {
			i.Status.History = []windowsv1alpha1.Operation{reconfigured(windowsv1alpha1.OperationFailed, windowsv1alpha1.ImpactReboot)}
		}), brokenNeighbor(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other, op := brake(tt.instance, []windowsv1alpha1.WindowsInstance{*tt.instance, *tt.other})
			if got := other != nil; got != tt.want || got && (other.Name != "win-2" || op.ID != "op-failed") {
				t.Errorf("got %v, %v, want %v", other, op, tt.want)
			}
		})
	}
}

// TestWhatBreaksOneHostDoesNotReachTheNext: it waits, and says for whom and what can be
// done, until the other host is well. Hosts of other pools go first meanwhile.
func TestWhatBreaksOneHostDoesNotReachTheNext(t *testing.T) {
	t.Parallel()
	other := brokenNeighbor()
	f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester)), other)
	f.configure()
	f.host.impact = config.ImpactDrain
	r, _ := f.process()
	f.reconcile(r)
	f.eventually("it to wait", func() bool {
		message := f.get().Status.Operation.Message
		return strings.Contains(message, "setting up host win-2 of the same pool failed") && strings.Contains(message, "operation op-failed") &&
			strings.Contains(message, "kubectl windows cancel win-1 -n windows-hosts")
	})
	if f.node().Spec.Unschedulable || f.drain.runs > 0 {
		t.Error("it does not wait")
	}
	if held, waiting := r.turns.load(); held+waiting > 0 {
		t.Errorf("turns that are taken: %d, waited for: %d, want none", held, waiting)
	}
	done := reconfigured(windowsv1alpha1.OperationSucceeded, windowsv1alpha1.ImpactDrain)
	other.Status.History, other.Status.Operation = []windowsv1alpha1.Operation{*other.Status.Operation}, &done
	if err := f.raw.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if op := f.waitForEnd(); op.Phase != windowsv1alpha1.OperationSucceeded || f.drain.runs != 1 {
		t.Errorf("it is %s: %s", op.Phase, op.Message)
	}
}

// TestBrakeWithACacheThatIsBehind: the turn that a host gets because another one has failed
// is not taken before that failure is known.
func TestBrakeWithACacheThatIsBehind(t *testing.T) {
	instance := newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester))
	before, now := newFixture(t, instance.DeepCopy()), newFixture(t, instance.DeepCopy(), brokenNeighbor())
	e := &execution{
		stored: &stored{live: now.raw, clock: now.clock, key: testKey, instance: now.get()},
		cached: before.raw, turns: newTurns(1),
	}
	why, err := e.tryTurn(t.Context(), e.turns, e.disrupted)
	if err != nil || !strings.Contains(why, "win-2") {
		t.Errorf("got %q, %v", why, err)
	}
	if held, waiting := e.turns.load(); held+waiting > 0 {
		t.Errorf("turns that are taken: %d, waited for: %d, want none", held, waiting)
	}
}
