// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

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

// recorded are operations as an instance has them when they were recorded one after the other, the newest first.
func recorded(operations ...v1alpha1.Operation) []v1alpha1.Operation {
	var status v1alpha1.WindowsInstanceStatus
	for _, op := range operations {
		if err := status.Record(&op); err != nil {
			panic(err)
		}
	}
	return append([]v1alpha1.Operation{*status.Operation}, status.History...)
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
	broke := reconfigured(failed, drain)
	broke.StartedAt, broke.FindStep(v1alpha1.StepApply).State = at(0), v1alpha1.StepFailed
	drained := reconfigured(failed, drain)
	drained.StartedAt, drained.HostChanged, drained.FindStep(v1alpha1.StepDrain).State, drained.PoolRevision = at(0), false, v1alpha1.StepFailed, "p-2"
	adopted := v1alpha1.Operation{ID: "adopt-1", Type: v1alpha1.OperationAdopt, Phase: succeeded, StartedAt: at(0), HostChanged: true}
	restarts := v1alpha1.Operation{ID: "reboot-1", Type: v1alpha1.OperationReboot, Phase: succeeded, StartedAt: at(0), BootID: "b", Cause: v1alpha1.CauseRestartAnnotated}
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
		{"what broke it is the oldest that is known", recorded(slices.Concat([]v1alpha1.Operation{broke}, slices.Repeat([]v1alpha1.Operation{unreached()}, 2*v1alpha1.MaxHistory))...), "op-failed"},
		{"what broke it, and a restart since", recorded(slices.Concat([]v1alpha1.Operation{broke, restarts}, slices.Repeat([]v1alpha1.Operation{unreached()}, 2*v1alpha1.MaxHistory))...), "op-failed"},
		{"it was adopted, and its pods never left", recorded(slices.Concat([]v1alpha1.Operation{adopted}, slices.Repeat([]v1alpha1.Operation{drained}, 2*v1alpha1.MaxHistory))...), ""},
		{"its pods do not leave since one that succeeded", recorded(slices.Concat([]v1alpha1.Operation{reconfigured(succeeded, drain)}, slices.Repeat([]v1alpha1.Operation{inTheDrain}, 2*v1alpha1.MaxHistory))...), ""},
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

// TestDownAfterUpdate: a host that works with a configuration for a while and then not any more
// keeps it from the others, too.
// TestRestartThatBrokeAHostIsNotForgotten: however many attempts to update it fail since.
func TestRestartThatBrokeAHostIsNotForgotten(t *testing.T) {
	updated := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain)
	updated.FinishedAt = at(-100 * time.Hour)
	restarted := v1alpha1.Operation{
		ID: "reboot-1", Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseRestartRequested, Phase: v1alpha1.OperationFailed, BootID: "b",
		RequestedAt: *at(-time.Hour), StartedAt: at(-time.Hour), FinishedAt: at(-time.Minute),
	}
	all := recorded(slices.Concat([]v1alpha1.Operation{updated, restarted}, slices.Repeat([]v1alpha1.Operation{unreached()}, 2*v1alpha1.MaxHistory))...)
	i := works(condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, 0))
	i.Status.Operation, i.Status.History = &all[0], all[1:]
	if newHost(i).broken == nil {
		t.Error("the host does not count as broken any more")
	}
}

func TestDownAfterUpdate(t *testing.T) {
	notReady := metav1.Condition{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeNotReady}
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstanceStatus)
		want bool
	}{
		{"it went down", func(*v1alpha1.WindowsInstanceStatus) {}, true},
		{"it went down within an hour", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.FinishedAt, s.Conditions[0].LastTransitionTime = at(0), *at(time.Hour)
		}, true},
		{"it went down hours later", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.FinishedAt, s.Conditions[0].LastTransitionTime = at(0), *at(time.Hour + time.Second)
		}, false},
		{"it is ready", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Conditions[0].Status, s.Conditions[0].Reason = metav1.ConditionTrue, v1alpha1.ReasonNodeReady
		}, false},
		{"somebody deleted its Node", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions[0].Reason = v1alpha1.ReasonNoNode }, false},
		{"nothing is known of its Node", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions = nil }, false},
		{"it never was configured", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation = nil }, false},
		{"it failed before it changed anything", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.Phase, s.History = v1alpha1.OperationCanceled, nil
		}, false},
		{"another configuration is wanted since", func(s *v1alpha1.WindowsInstanceStatus) { s.DesiredRevision = "r2" }, true},
		{"the change concerned no pod", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Impact = v1alpha1.ImpactNone }, false},
		{"nothing was changed", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.HostChanged = false }, false},
		{"somebody reboots it", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}
		}, false},
		{"somebody reboots it because it went down", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}, time.Minute), true},
		{"it went down while somebody reboots it", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning}, -time.Minute), false},
		{"it is configured again because it went down", triedSince(reconfigured(v1alpha1.OperationRunning, v1alpha1.ImpactRestart), time.Minute), true},
		{"it went down while updates of Windows are downloaded to it", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseWindowsUpdates, Phase: v1alpha1.OperationRunning}, -time.Minute), true},
		{"it went down while another update waits for its slot", triedSince(v1alpha1.Operation{
			Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Impact: v1alpha1.ImpactDrain,
			Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}},
		}, -time.Minute), true},
		{"somebody has rebooted it", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationFailed}
		}, true},
		{"somebody has rebooted it with success", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded}, time.Minute), true},
		{"it could not be reached since", triedSince(unreached(), -time.Minute), true},
		{"it could not be reached ever since", func(s *v1alpha1.WindowsInstanceStatus) {
			s.Operation.FinishedAt, s.Conditions[0].LastTransitionTime = at(-2*time.Minute), *at(0)
			for range 2 * v1alpha1.MaxHistory {
				op := unreached()
				op.RequestedAt = *at(time.Minute)
				if err := s.Record(&op); err != nil {
					panic(err)
				}
			}
		}, true},
		{"somebody has canceled another attempt", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationCanceled}, time.Minute), true},
		{"another attempt changed it, and failed", triedSince(reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactRestart), time.Minute), true},
		{"another attempt changed it before its Node went down", triedSince(reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactRestart), -time.Minute), false},
		{"another configuration succeeded since", triedSince(reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactNone), time.Minute), false},
		{"it was released since", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationSucceeded, HostReleased: true}, time.Minute), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactRestart)
			op.Revision = "r1"
			status := v1alpha1.WindowsInstanceStatus{DesiredRevision: "r1", Operation: &op, Conditions: []metav1.Condition{notReady}}
			tt.edit(&status)
			if got := downAfterUpdate(&status) != nil; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// triedSince has something else be done to a host that went down at [at] 0.
func triedSince(op v1alpha1.Operation, requested time.Duration) func(*v1alpha1.WindowsInstanceStatus) {
	return func(s *v1alpha1.WindowsInstanceStatus) {
		op.RequestedAt, s.Conditions[0].LastTransitionTime, s.Operation.FinishedAt = *at(requested), *at(0), at(-2*time.Minute)
		s.History, s.Operation = []v1alpha1.Operation{*s.Operation}, &op
	}
}

// TestCorrectionReachesAHostThatWentDown: what is desired since an update took a host down reaches that host first, and the others when it works: it may
// be what corrects it.
func TestCorrectionReachesAHostThatWentDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
		pool.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.FromInt32(1))
		pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 3600}
		old := works(desiresAnother)
		down := works(func(i *v1alpha1.WindowsInstance) {
			i.Name, i.UID, i.Status.Node = "b", "b", &v1alpha1.NodeReference{Name: "b"}
			goesDown(testNow.Add(-10 * time.Minute))(i)
			desiresAnother(i)
		})
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactRestart, "b": v1alpha1.ImpactRestart}, pool, old, down, newNode("b", "", corev1.ConditionFalse))
		f.clock = clocktesting.NewFakePassiveClock(testNow)
		f.pass()
		f.pass()
		why := f.WaitsFor(types.NamespacedName{Namespace: "ns", Name: "a"})
		if op := f.operation("b"); f.operation("a") != nil || !op.Active() || op.Revision != "r3" || !strings.Contains(why, "changed host b and its Node is not ready any more") {
			t.Fatalf("a has %+v and waits for %q, b has %+v", f.operation("a"), why, op)
		}
		if h := newHost(f.get("b")); h.broken == nil {
			t.Error("nothing keeps the others from the correction before it works")
		}
		corrected := f.get("b")
		corrected.Status.Operation.Phase, corrected.Status.CurrentRevision = v1alpha1.OperationSucceeded, "r3"
		condition(v1alpha1.ConditionNodeReady, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, 0)(corrected)
		if h := newHost(corrected); h.broken != nil {
			t.Errorf("it works, and is broken by %+v", h.broken)
		}
	})
}

func causedBy(cause v1alpha1.OperationCause) func(*v1alpha1.WindowsInstanceStatus) {
	return func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Cause = cause }
}

// TestDownAfterRestart: a host that does not come back from a restart that the controller wanted keeps the others from it.
func TestDownAfterRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.WindowsInstanceStatus)
		want bool
	}{
		{"it does not come back", func(*v1alpha1.WindowsInstanceStatus) {}, true},
		{"it came back and went down", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Phase = v1alpha1.OperationSucceeded }, true},
		{"it went down hours later", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions[0].LastTransitionTime = *at(2 * time.Hour) }, false},
		{"it was restarted on request", causedBy(v1alpha1.CauseRestartRequested), true},
		{"its Node asked for a restart", causedBy(v1alpha1.CauseRestartAnnotated), true},
		{"it was restarted for updates of Windows", causedBy(v1alpha1.CauseWindowsUpdates), true},
		{"it was restarted because its Node was not ready", causedBy(v1alpha1.CauseNodeNotReady), false},
		{"a configuration has failed since", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed}, time.Minute), true},
		{"somebody has restarted it since", triedSince(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded}, time.Minute), true},
		{"it was never restarted: its pods did not leave", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.BootID = "" }, false},
		{"a person restarted it", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Cause = "" }, false},
		{"it is ready again", func(s *v1alpha1.WindowsInstanceStatus) { s.Conditions[0].Reason = v1alpha1.ReasonNodeReady }, false},
		{"it is being restarted", func(s *v1alpha1.WindowsInstanceStatus) { s.Operation.Phase = v1alpha1.OperationRunning }, false},
		{"something is being done about it", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning, RequestedAt: *at(time.Minute)}
		}, true},
		{"it was configured since", func(s *v1alpha1.WindowsInstanceStatus) {
			s.History = []v1alpha1.Operation{*s.Operation}
			s.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := v1alpha1.WindowsInstanceStatus{
				Operation:  &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationFailed, Cause: v1alpha1.CauseRestartPending, BootID: "b", FinishedAt: at(0)},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeNotReady, LastTransitionTime: *at(-time.Minute)}},
			}
			tt.edit(&status)
			if got := downAfterRestart(&status) != nil; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
