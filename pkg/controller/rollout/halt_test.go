// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const testNamespace = "windows-hosts"

// change edits an instance of a test.
type change func(*v1alpha1.WindowsInstance)

// newInstance is a host for which alice has asked for an operation.
func newInstance(op v1alpha1.Operation, changes ...change) *v1alpha1.WindowsInstance {
	op.ID, op.RequestedBy, op.Phase = "op-1", "alice", v1alpha1.OperationPending
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "win-1", UID: "uid"},
		Status:     v1alpha1.WindowsInstanceStatus{Operation: &op},
	}
	for _, c := range changes {
		c(instance)
	}
	return instance
}

func reconfigureOperation() v1alpha1.Operation {
	return v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}
}

// newSteps are those of a configuration that matter here.
func newSteps() []v1alpha1.OperationStep {
	var steps []v1alpha1.OperationStep
	for _, name := range []string{v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepApply, v1alpha1.StepUncordon} {
		steps = append(steps, v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending})
	}
	return steps
}

// reconfigured is a configuration that has ended, and failed while the host was changed
// if it failed.
func reconfigured(phase v1alpha1.OperationPhase, impact v1alpha1.ChangeImpact) v1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Impact, op.Steps = "op-"+strings.ToLower(string(phase)), phase, impact, newSteps()
	op.HostChanged = true
	op.Node = &v1alpha1.OperationNode{Name: "win-2"}
	return op
}

// unreached is a configuration that did not come as far as the host, whose Node was found
// cordoned.
func unreached() v1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Steps = "op-unreached", v1alpha1.OperationFailed, newSteps()
	op.Node = &v1alpha1.OperationNode{Name: "win-2", WasUnschedulable: true}
	return op
}

func TestBrokenBy(t *testing.T) {
	const (
		failed    = v1alpha1.OperationFailed
		succeeded = v1alpha1.OperationSucceeded
		drain     = v1alpha1.ImpactDrain
	)
	// What earlier operations did is noted in the oldest that the history keeps.
	afterOthers := func(op v1alpha1.Operation) []v1alpha1.Operation {
		all := slices.Repeat([]v1alpha1.Operation{op}, v1alpha1.MaxHistory+1)
		all[v1alpha1.MaxHistory].HostChanged = true
		return all
	}
	archived := reconfigured(failed, drain)
	archived.HostChanged, archived.Steps = true, nil
	inTheDrain := reconfigured(failed, drain)
	inTheDrain.HostChanged = false
	joining := reconfigured(failed, v1alpha1.ImpactReboot)
	joining.Node = nil
	rejoining := reconfigured(failed, v1alpha1.ImpactRestart)
	rejoining.JoinsAgain, rejoining.Node = true, unreached().Node
	reboot := reconfigured(failed, drain)
	reboot.Type = v1alpha1.OperationReboot
	open := unreached()
	open.Node.WasUnschedulable = false
	tests := []struct {
		name string
		// operations are those of the host, the newest first.
		operations []v1alpha1.Operation
		want       string
	}{
		{"none", nil, ""},
		{"a drain", []v1alpha1.Operation{reconfigured(failed, drain)}, "op-failed"},
		{"a restart of Windows", []v1alpha1.Operation{reconfigured(failed, v1alpha1.ImpactReboot)}, "op-failed"},
		{"a restart of services", []v1alpha1.Operation{reconfigured(failed, v1alpha1.ImpactRestart)}, "op-failed"},
		{"nothing noticeable", []v1alpha1.Operation{reconfigured(failed, v1alpha1.ImpactNone)}, ""},
		{"a host that was no node", []v1alpha1.Operation{joining}, ""},
		{"a host that cannot join again", []v1alpha1.Operation{rejoining}, ""},
		{"a host that cannot join again, since a configuration broke it", []v1alpha1.Operation{rejoining, reconfigured(failed, drain)}, "op-failed"},
		{"a host that cannot join again for so long that the rest is forgotten", slices.Repeat([]v1alpha1.Operation{rejoining}, v1alpha1.MaxHistory+1), ""},
		{"a host that cannot join again, and others changed it before", afterOthers(rejoining), ""},
		{"it cannot be reached, and others changed it before", afterOthers(open), ""},
		{"its pods do not leave, and others changed it before", afterOthers(inTheDrain), ""},
		{"the oldest that is known broke it", append(slices.Repeat([]v1alpha1.Operation{unreached()}, v1alpha1.MaxHistory), archived), "op-failed"},
		{"a host that was no node, for long", afterOthers(joining), ""},
		{"only reboots are known", slices.Repeat([]v1alpha1.Operation{reboot}, v1alpha1.MaxHistory+1), ""},
		{"success", []v1alpha1.Operation{reconfigured(succeeded, drain)}, ""},
		{"success since", []v1alpha1.Operation{reconfigured(succeeded, v1alpha1.ImpactNone), reconfigured(failed, drain)}, ""},
		{"success before", []v1alpha1.Operation{reconfigured(failed, drain), reconfigured(succeeded, drain)}, "op-failed"},
		{"pods did not leave", []v1alpha1.Operation{inTheDrain}, ""},
		{"somebody canceled it", []v1alpha1.Operation{reconfigured(v1alpha1.OperationCanceled, drain)}, ""},
		{"a reboot that somebody asked for", []v1alpha1.Operation{reboot}, ""},
		{"it is tried again", []v1alpha1.Operation{reconfigured(v1alpha1.OperationRunning, drain), reconfigured(failed, drain)}, "op-failed"},
		{"it cannot be reached since", []v1alpha1.Operation{unreached(), unreached(), reconfigured(failed, drain)}, "op-failed"},
		{"it cannot be reached since, as the history has it", []v1alpha1.Operation{unreached(), archived}, "op-failed"},
		{"it cannot be reached for so long that the rest is forgotten", slices.Repeat([]v1alpha1.Operation{unreached()}, v1alpha1.MaxHistory+1), "op-unreached"},
		{"it never could be reached", slices.Repeat([]v1alpha1.Operation{unreached()}, v1alpha1.MaxHistory), ""},
		{"it cannot be reached and nobody cordoned it", slices.Repeat([]v1alpha1.Operation{open}, v1alpha1.MaxHistory+1), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status := &v1alpha1.WindowsInstanceStatus{}
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

// TestWentDownWith: a host that works with a configuration for a while and then not any more
// keeps it from the others, too.
func TestWentDownWith(t *testing.T) {
	notReady := metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeNotReady}
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstanceStatus)
		want bool
	}{
		{"it went down", func(*v1alpha1.WindowsInstanceStatus) {}, true},
		{"it is ready", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Conditions[0].Status, s.Conditions[0].Reason = metav1.ConditionTrue, v1alpha1.ReasonNodeReady
		}, false},
		{"somebody deleted its Node", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions[0].Reason = v1alpha1.ReasonNoNode }, false},
		{"nothing is known of its Node", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions = nil }, false},
		{"it never was configured", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation = nil }, false},
		{"it failed before it changed anything", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.Phase, s.History = v1alpha1.OperationCanceled, nil
		}, false},
		{"another configuration is wanted since", func(s *v1alpha1.WindowsInstanceStatus) { s.DesiredRevision = "r2" }, false},
		{"the change concerned no pod", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Impact = v1alpha1.ImpactNone }, false},
		{"nothing was changed", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.HostChanged = false }, false},
		{"somebody reboots it", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}
		}, false},
		{"somebody has rebooted it", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationFailed}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactRestart)
			op.Revision = "r1"
			other := brokenNeighbor(func(i *v1alpha1.WindowsInstance) {
				i.Status = v1alpha1.WindowsInstanceStatus{DesiredRevision: "r1", Operation: &op, Conditions: []metav1.Condition{notReady}}
				tt.edit(&i.Status)
			})
			instance := newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester))
			slots := NewRestartSlots(1)
			slots.Hold(client.ObjectKeyFromObject(instance))
			waitsFor := slots.Confirm(instance, []v1alpha1.WindowsInstance{*instance, *other})
			if held, _ := slots.Load(); (held == 0) != tt.want {
				t.Errorf("%d slots are held", held)
			}
			const want = "Waiting: operation op-succeeded changed host win-2 of the same pool and its Node is not ready any more. This host continues when win-2 is ready, is deleted or leaves pool pool."
			if got := strings.HasPrefix(waitsFor, want); got != tt.want || !tt.want && waitsFor != "" {
				t.Errorf("got %q", waitsFor)
			}
		})
	}
}

func inPool(name string) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Spec.PoolRef = &v1alpha1.PoolReference{Name: name}
	}
}

func askedForBy(who string) change {
	return func(i *v1alpha1.WindowsInstance) { i.Status.Operation.RequestedBy = who }
}

// brokenNeighbor is another host of the pool, which a configuration broke.
func brokenNeighbor(changes ...change) *v1alpha1.WindowsInstance {
	return newInstance(reconfigureOperation(), append([]change{inPool("pool"), func(i *v1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		*i.Status.Operation = reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactDrain)
	}}, changes...)...)
}

// TestHaltedByItself: a cache that is behind does not know yet that a host is being configured again.
func TestHaltedByItself(t *testing.T) {
	instance := newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester))
	behind := instance.DeepCopy()
	*behind.Status.Operation = reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactDrain)
	if other, op := haltedBy(instance, []v1alpha1.WindowsInstance{*behind}); other != nil {
		t.Errorf("it waits for itself: %v", op)
	}
}

func TestDescribeHalt(t *testing.T) {
	other := brokenNeighbor()
	got := describeHalt(newInstance(reconfigureOperation()), other, other.Status.Operation)
	const want = "Waiting: operation op-failed changed host win-2 in the same namespace and failed. This host continues when win-2 has been configured, is deleted or gets a pool. "
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestHaltedBy(t *testing.T) {
	tests := []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		other    *v1alpha1.WindowsInstance
		want     bool
	}{
		{"the same pool", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor(), true},
		{"a user who is called as the controller is", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Origin = v1alpha1.OriginUser
		}), brokenNeighbor(), false},
		{"a person asks", newInstance(reconfigureOperation(), inPool("pool")), brokenNeighbor(), false},
		{"another pool", newInstance(reconfigureOperation(), inPool("other"), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor(), false},
		{"both in no pool", newInstance(reconfigureOperation(), askedForBy(v1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }), true},
		{"both in no pool, in other namespaces", newInstance(reconfigureOperation(), askedForBy(v1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef, i.Namespace = nil, "others" }), false},
		{"no pool", newInstance(reconfigureOperation(), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor(), false},
		{"a pool of the same name", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *v1alpha1.WindowsInstance) { i.Namespace = "others" }), false},
		{"the other one is going", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)),
			brokenNeighbor(func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = ptr.To(metav1.Now()) }), false},
		{"it broke itself", newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), func(i *v1alpha1.WindowsInstance) {
			i.Status.History = []v1alpha1.Operation{reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactReboot)}
		}), brokenNeighbor(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other, op := haltedBy(tt.instance, []v1alpha1.WindowsInstance{*tt.instance, *tt.other})
			if got := other != nil; got != tt.want || got && (other.Name != "win-2" || op.ID != "op-failed") {
				t.Errorf("got %v, %v, want %v", other, op, tt.want)
			}
		})
	}
}
