// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// executing is an execution of the operation as it is recorded, at a step.
func (f *fixture) executing(r *Reconciler, step string) *execution {
	f.t.Helper()
	instance := f.get()
	return &execution{Reconciler: r, key: testKey, id: "op-1", instance: instance, stored: instance, current: step, yield: func() {}}
}

// running is an execution of the operation of the instance, at a step.
func (f *fixture) running(step string) *execution {
	f.t.Helper()
	f.edit(takenOverAt(step, v1alpha1.ImpactRestart))
	r, _ := f.process()
	return f.executing(r, step)
}

// TestProgressOfTheAgent: what the agent does is in the record, and counts when it is done.
func TestProgressOfTheAgent(t *testing.T) {
	t.Parallel()
	progress := func(done int32) *v1alpha1.OperationProgress {
		return &v1alpha1.OperationProgress{Done: done, Total: 3, Unit: "changes"}
	}
	for _, tt := range []struct {
		event   api.Event
		message string
		want    *v1alpha1.OperationProgress
	}{
		{api.Event{Item: "Update Service kubelet", Step: 2, Steps: 3, State: api.EventStarted}, "Configuring. Update Service kubelet.", progress(1)},
		{api.Event{Item: "Update Service kubelet", Step: 2, Steps: 3, State: api.EventDone}, "Configuring. Update Service kubelet.", progress(2)},
		{api.Event{Item: "Update Service kubelet", Step: 2, Steps: 3, State: api.EventNote, Message: "it does not stop"}, "Configuring. Update Service kubelet: it does not stop.", progress(1)},
		{api.Event{Item: "Update Service kubelet", Steps: 3, State: api.EventNote}, "Configuring. Update Service kubelet.", progress(0)},
		{api.Event{Item: "Reading the inventory", State: api.EventStarted}, "Configuring. Reading the inventory.", nil},
	} {
		inBubble(t, string(tt.event.State)+" "+tt.message, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			e := f.running(v1alpha1.StepApply)
			if err := e.changing(t.Context(), "Configuring.", tt.event, false); err != nil {
				t.Fatal(err)
			}
			op := f.get().Status.Operation
			if diff := cmp.Diff(tt.want, op.Progress); diff != "" || op.Message != tt.message {
				t.Errorf("got %q, want %q (-want +got)\n%s", op.Message, tt.message, diff)
			}
		})
	}
}

// TestLastProgress: that something is over is written with what comes next, and so is that the host was changed.
func TestLastProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		e := f.running(v1alpha1.StepApply)
		written := f.recordings()
		e.changed = true
		if err := e.changing(t.Context(), "Configuring.", api.Event{Item: "Update Service kubelet", Step: 3, Steps: 3, State: api.EventDone}, true); err != nil {
			t.Fatal(err)
		}
		if op := e.operation(); len(*written) > 0 || op.Progress == nil || op.Progress.Done != 3 || !op.HostChanged {
			t.Errorf("written: %v; known are %v, changed: %t", *written, op.Progress, op.HostChanged)
		}
		e.changed = false // what was noted has it
		if err := e.recordMessage(t.Context(), "Next."); err != nil {
			t.Fatal(err)
		}
		if op := f.get().Status.Operation; op.Message != "Next." || op.Progress == nil || op.Progress.Done != 3 || !op.HostChanged {
			t.Errorf("got %q, %v, changed: %t", op.Message, op.Progress, op.HostChanged)
		}
	})
}

// TestProgressOfATransfer: files are named while they are on their way.
func TestProgressOfATransfer(t *testing.T) {
	t.Parallel()
	file := func(name string, stage transfer.Stage) transfer.FileProgress {
		return transfer.FileProgress{Name: name, Stage: stage}
	}
	for _, tt := range []struct {
		name  string
		files []transfer.FileProgress
		sent  int64
		want  string
	}{
		{"none yet", []transfer.FileProgress{file("a", transfer.StageWaiting)}, 0, "Sending files: 0 of 3 MiB."},
		{"two", []transfer.FileProgress{file("a", transfer.StageDone), file("b", transfer.StageSending), file("c", transfer.StageVerifying)}, 1, "Sending files: 1 of 3 MiB, now b, c."},
		{"all", []transfer.FileProgress{file("a", transfer.StageDone)}, 3 << 20, "Sending files: 3 of 3 MiB."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			e := f.running(v1alpha1.StepTransfer)
			if err := e.sending(t.Context(), transfer.Progress{Files: tt.files, Sent: tt.sent, Total: 3 << 20}, false); err != nil {
				t.Fatal(err)
			}
			if op := f.get().Status.Operation; op.Message != tt.want || op.Progress.Unit != "MiB" || op.Progress.Total != 3 {
				t.Errorf("got %q and %v, want %q", op.Message, op.Progress, tt.want)
			}
		})
	}
	for bytes, want := range map[int64]int32{0: 0, 1: 1, 1 << 20: 1, 1<<20 + 1: 2, math.MaxInt64 - 1<<20: math.MaxInt32} {
		if got := toMebibytes(bytes); got != want {
			t.Errorf("%d bytes: got %d, want %d", bytes, got, want)
		}
	}
}

// TestMayHaveChanged: only who says so has changed nothing.
func TestMayHaveChanged(t *testing.T) {
	agent := func(step string) error { return &agentclient.Error{Step: step, Err: errors.New("no")} }
	item := []api.Item{{Name: "a"}}
	for _, tt := range []struct {
		name string
		done *api.Result
		err  error
		want bool
	}{
		{"it could not be logged in to", nil, errNoLogin, false},
		{"the answer was lost", nil, errLost, true},
		{"the agent refused", nil, agent(agentclient.StepRefused), false},
		{"the agent died", nil, agent(agentclient.StepRun), true},
		{"another one changes it", &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonLocked}, nil, false},
		{"a step failed", &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep}, nil, true},
		{"something was changed before", &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonConflict, Changed: item}, nil, true},
		{"it was as desired", &api.Result{Outcome: api.OutcomeUnchanged}, nil, false},
		{"a reason without a failure", &api.Result{Outcome: api.OutcomeUnchanged, Reason: api.ReasonStep}, nil, false},
		{"it was applied", &api.Result{Outcome: api.OutcomeApplied, Changed: item}, nil, true},
	} {
		if got := mayHaveChanged(tt.done, tt.err); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestAgentThatEnds: an agent that ended without a result, or was in use, is asked again; one that
// refuses is not, and neither is a host whose disk is full.
func TestAgentThatEnds(t *testing.T) {
	t.Parallel()
	agent := func(step string) error { return &agentclient.Error{Step: step, Err: errors.New("it says no")} }
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		request   string
		err       error
		times     int
		want      int // requests
		phase     v1alpha1.OperationPhase
	}{
		{"it was killed", reconfigureOperation(), "Apply", agent(agentclient.StepRun), 5, 6, v1alpha1.OperationSucceeded},
		{"it is killed all the time", reconfigureOperation(), "Apply", agent(agentclient.StepRun), 100, 6, v1alpha1.OperationFailed},
		{"it was in use", removeOperation(), "Cleanup", agent(agentclient.StepRemove), 1, 2, v1alpha1.OperationSucceeded},
		{"it refuses", reconfigureOperation(), "Apply", agent(agentclient.StepRefused), 1, 1, v1alpha1.OperationFailed},
		{"there is no room", reconfigureOperation(), "Deliver", errNoSpace, 1, 1, v1alpha1.OperationFailed},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{configuredBefore}
			if tt.operation.Type == v1alpha1.OperationRemove {
				changes = append(changes, isBeingDeleted)
			}
			f := newFixture(t, newInstance(tt.operation, changes...))
			f.configure()
			f.host.needsFiles = tt.request == "Deliver"
			left := tt.times
			f.host.fail[tt.request] = func() error {
				if left--; left < 0 {
					return nil
				}
				return tt.err
			}
			if op := f.finish(); op.Phase != tt.phase || f.host.count(tt.request) != tt.want {
				t.Errorf("it is %s after %d requests, want %d: %s", op.Phase, f.host.count(tt.request), tt.want, op.Message)
			}
		})
	}
}

// TestChangeEndsInTime: a host that says something and breaks off, again and again, has its slot for no longer than
// a change may take, and the next one gets it.
func TestChangeEndsInTime(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]v1alpha1.Operation{"configured": reconfigureOperation(), "removed": removeOperation()} {
		inBubble(t, name, func(t *testing.T) {
			changes := []change{configuredBefore}
			if operation.Type == v1alpha1.OperationRemove {
				changes = append(changes, isBeingDeleted)
			}
			f := newFixture(t, newInstance(operation, changes...))
			f.configure()
			f.host.impact, f.host.slow, f.host.cuts = config.ImpactDrain, 9*time.Minute, 1000
			began := time.Now()
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "did not end within") {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if took := time.Since(began); took < changeTimeout || took > changeTimeout+10*time.Minute {
				t.Errorf("it took %s, want %s", took, changeTimeout)
			}
		})
	}
}

// TestNothingToDo: a host that is as it should be is left alone, and each step says so at once.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		c := f.configure()
		c.warnings = []string{"registry a: ignored", "registry b: ignored"}
		f.host.is, f.host.recorded = "new", "new"
		op := f.finish()
		const want = "The host has its desired configuration. Registry a: ignored; registry b: ignored."
		for _, name := range configuringSteps {
			step := op.FindStep(name)
			if name == v1alpha1.StepCordon || name == v1alpha1.StepDrain {
				if step.Message != "No pod has to leave for it." {
					t.Errorf("%s says %q", name, step.Message)
				}
			} else if step.Message != want {
				t.Errorf("%s says %q", name, step.Message)
			}
			if name != v1alpha1.StepPlan && (step.State != v1alpha1.StepSkipped || step.StartedAt != nil) {
				t.Errorf("%s is %s, begun at %s", name, step.State, step.StartedAt)
			}
		}
		if join := op.FindStep(v1alpha1.StepJoin); join.Message != "The host is Node win-1 already." || join.StartedAt != nil {
			t.Errorf("Join: %q, begun at %s", join.Message, join.StartedAt)
		}
	})
}

// TestProgramsAreKept: the host is told which programs it may have to go back to.
func TestProgramsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure().keep = []string{"sha256:a", "sha256:b"}
		op := f.finish()
		if diff := cmp.Diff([]string{"sha256:a", "sha256:b"}, f.host.keeps); diff != "" {
			t.Errorf("it is %s: %s (-want +got)\n%s", op.Phase, op.Message, diff)
		}
	})
}

// TestHas: a host has a revision once it has written down that it is complete.
func TestHas(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts *api.Facts
		want  bool
	}{
		{"nobody asked", nil, false},
		{"it has it", &api.Facts{Configuration: api.ConfigurationFacts{AppliedRevision: "r"}}, true},
		{"another one", &api.Facts{Configuration: api.ConfigurationFacts{AppliedRevision: "s"}}, false},
		{"it was interrupted", &api.Facts{Configuration: api.ConfigurationFacts{AppliedRevision: "r", ApplyingRevision: "s"}}, false},
	} {
		if got := (&execution{facts: tt.facts}).has("r"); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestPlannedRestartIsNotNeeded: Windows is restarted for what was done, and not for what was planned.
func TestPlannedRestartIsNotNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact = config.ImpactReboot
		op := f.finish()
		if got := short(op); op.Phase != v1alpha1.OperationSucceeded || got != "SSSS SkSSS Skkk kkSSS" || f.host.count("Apply") != 1 {
			t.Errorf("it is %s, %s, applied %d times: %s", op.Phase, got, f.host.count("Apply"), op.Message)
		}
	})
}

// TestMissingInputOfANode: a host that was a Node before is not kept waiting for what others owe it.
func TestMissingInputOfANode(t *testing.T) {
	t.Parallel()
	for _, joins := range []bool{false, true} {
		inBubble(t, map[bool]string{false: "a Node", true: "one that joins"}[joins], func(t *testing.T) {
			change := func(*v1alpha1.WindowsInstance) {}
			if joins {
				change = withoutNode
			}
			f := newFixture(t, newInstance(reconfigureOperation(), change))
			c := f.configure()
			c.waiting = []document.Waiting{{Service: "windows_exporter", For: "its certificate"}}
			if joins {
				f.host.is = ""
				f.registers()
			}
			op := f.finish()
			step := op.FindStep(v1alpha1.StepNetwork)
			if took := step.FinishedAt.Sub(step.StartedAt.Time); op.Phase != v1alpha1.OperationSucceeded || (took >= inputsPatience) != joins || took > inputsPatience+time.Minute {
				t.Errorf("it is %s, it waited %s: %s", op.Phase, took, op.Message)
			}
			if !strings.Contains(step.Message, "Not configured yet: service windows_exporter (waits for its certificate).") {
				t.Errorf("got %q", step.Message)
			}
		})
	}
}

// TestDiagnose: an error is put into the words of the step that met it.
func TestDiagnose(t *testing.T) {
	instance := newInstance(reconfigureOperation())
	refused := &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("it says no")}
	unknown := errors.New("it says no")
	said := map[string]string{}
	for _, step := range []string{v1alpha1.StepConnect, v1alpha1.StepPlan, v1alpha1.StepTransfer, v1alpha1.StepApply, v1alpha1.StepFinish, v1alpha1.StepNetwork, v1alpha1.StepCleanup} {
		e := &execution{instance: instance, current: step}
		if got := e.diagnose(errRefusedPort); !strings.HasPrefix(got, "ConnectionRefused: ") {
			t.Errorf("%s: %q", step, got)
		}
		if got := e.diagnose(refused); strings.HasPrefix(got, "AgentFailed: ") != (step == v1alpha1.StepConnect) {
			t.Errorf("%s: %q", step, got)
		}
		said[step] = e.diagnose(unknown)
	}
	if a := said[v1alpha1.StepApply]; a != said[v1alpha1.StepFinish] || a != said[v1alpha1.StepNetwork] || a == said[v1alpha1.StepPlan] || a == said[v1alpha1.StepCleanup] || a == said[v1alpha1.StepConnect] {
		t.Errorf("got %q", said)
	}
}

// TestOperationOfAnEarlierRelease: one without the step WaitForSlot waits as well, before it does anything.
func TestOperationOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	for step, impact := range map[string]v1alpha1.ChangeImpact{v1alpha1.StepCordon: v1alpha1.ImpactDrain, v1alpha1.StepApply: v1alpha1.ImpactRestart} {
		inBubble(t, step, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), takenOverAt(step, impact), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				if step == v1alpha1.StepApply { // no pod had to leave
					op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepDrain).State = v1alpha1.StepSkipped, v1alpha1.StepSkipped
				}
				for n := range op.Steps {
					if op.Steps[n].Name == v1alpha1.StepWaitForSlot {
						op.Steps = append(op.Steps[:n], op.Steps[n+1:]...)
						break
					}
				}
			}), brokenNeighbor())
			f.configure()
			f.host.impact = config.Impact(impact)
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("it to wait", func() bool {
				return strings.Contains(f.get().Status.Operation.Message, "changed host win-2 and failed")
			})
			if f.requests("patch Node") > 0 || f.requests("Apply") > 0 {
				t.Error("it did not wait")
			}
			f.host.mu.Lock()
			f.host.certificate = &api.KubeletCertificate{Problem: api.CertificateExpired}
			f.host.mu.Unlock()
			f.rejoins()
			f.kubeletIsGone()
			if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded || f.host.applies[0] != "new with credentials "+string(impact) {
				t.Errorf("it is %s, applied %v: %s", op.Phase, f.host.applies, op.Message)
			}
		})
	}
}
