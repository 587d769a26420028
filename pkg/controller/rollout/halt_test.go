// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const testNamespace = "windows-hosts"

// change edits an instance of a test.
type change func(*windowsv1alpha1.WindowsInstance)

// newInstance is a host for which alice has asked for an operation.
func newInstance(op windowsv1alpha1.Operation, changes ...change) *windowsv1alpha1.WindowsInstance {
	op.ID, op.RequestedBy, op.Phase = "op-1", "alice", windowsv1alpha1.OperationPending
	instance := &windowsv1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "win-1", UID: "uid"},
		Status:     windowsv1alpha1.WindowsInstanceStatus{Operation: &op},
	}
	for _, c := range changes {
		c(instance)
	}
	return instance
}

func reconfigureOperation() windowsv1alpha1.Operation {
	return windowsv1alpha1.Operation{Type: windowsv1alpha1.OperationReconfigure}
}

// newSteps are those of a configuration that matter here.
func newSteps() []windowsv1alpha1.OperationStep {
	var steps []windowsv1alpha1.OperationStep
	for _, name := range []string{windowsv1alpha1.StepCordon, windowsv1alpha1.StepDrain, windowsv1alpha1.StepApply, windowsv1alpha1.StepUncordon} {
		steps = append(steps, windowsv1alpha1.OperationStep{Name: name, State: windowsv1alpha1.StepPending})
	}
	return steps
}

// reconfigured is a configuration that has ended, and failed while the host was changed
// if it failed.
func reconfigured(phase windowsv1alpha1.OperationPhase, impact windowsv1alpha1.ChangeImpact) windowsv1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Impact, op.Steps = "op-"+strings.ToLower(string(phase)), phase, impact, newSteps()
	op.FindStep(windowsv1alpha1.StepApply).StartedAt = ptr.To(metav1.Now())
	op.Node = &windowsv1alpha1.OperationNode{Name: "win-2"}
	return op
}

// unreached is a configuration that did not come as far as the host, whose Node was found
// cordoned.
func unreached() windowsv1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Steps = "op-unreached", windowsv1alpha1.OperationFailed, newSteps()
	op.Node = &windowsv1alpha1.OperationNode{Name: "win-2", WasUnschedulable: true}
	return op
}

func TestBrokenBy(t *testing.T) {
	const (
		failed    = windowsv1alpha1.OperationFailed
		succeeded = windowsv1alpha1.OperationSucceeded
		drain     = windowsv1alpha1.ImpactDrain
	)
	archived := reconfigured(failed, drain)
	archived.HostChanged, archived.Steps = true, nil
	inTheDrain := reconfigured(failed, drain)
	inTheDrain.FindStep(windowsv1alpha1.StepApply).StartedAt = nil
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
		{"it cannot be reached since, as the history has it", []windowsv1alpha1.Operation{unreached(), archived}, "op-failed"},
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
			if op := brokenBy(status); op != nil {
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

func TestHaltedBy(t *testing.T) {
	tests := []struct {
		name     string
		instance *windowsv1alpha1.WindowsInstance
		other    *windowsv1alpha1.WindowsInstance
		want     bool
	}{
		{"the same pool", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester)), brokenNeighbor(), true},
		{"a user who is called as the controller is", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(windowsv1alpha1.ControllerRequester), func(i *windowsv1alpha1.WindowsInstance) {
			i.Status.Operation.Origin = windowsv1alpha1.OriginUser
		}), brokenNeighbor(), false},
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
			other, op := haltedBy(tt.instance, []windowsv1alpha1.WindowsInstance{*tt.instance, *tt.other})
			if got := other != nil; got != tt.want || got && (other.Name != "win-2" || op.ID != "op-failed") {
				t.Errorf("got %v, %v, want %v", other, op, tt.want)
			}
		})
	}
}
