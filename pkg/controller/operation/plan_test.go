// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestPlan(t *testing.T) {
	tests := []struct {
		name       string
		operation  v1alpha1.Operation
		configured bool
		want       string
	}{
		{"drain", drainOperation(), true, "Cordon Evict"},
		{"uncordon", v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, true, "Uncordon"},
		{"reboot", rebootOperation(""), true, "Connect Cordon Drain Restart Boot Services MetadataRoute NodeReady Uncordon"},
		{"reboot if pending", rebootOperation(v1alpha1.RebootIfPending), true, "Connect CheckPending Cordon Drain Restart Boot Services MetadataRoute NodeReady Uncordon"},
		{"forced reboot", rebootOperation(v1alpha1.RebootForce), true, "Connect Restart Boot Services MetadataRoute NodeReady Uncordon"},
		{
			"reboot with updates", withUpdates(rebootOperation("")), true,
			"Connect DownloadUpdates WaitForSlot Cordon Drain InstallUpdates Restart Boot Services MetadataRoute NodeReady Uncordon VerifyUpdates",
		},
		{"reconfigure, the agent only", reconfigureOperation(), false, "Connect Facts Preflight Agent Verify"},
		{
			"reconfigure", reconfigureOperation(), true,
			"Connect Facts Preflight Agent Plan Transfer WaitForSlot Cordon Drain Apply Restart Boot Finish Join Network NodeReady Uncordon Verify",
		},
		{"remove", removeOperation(), true, "Connect WaitForSlot Cordon Drain Cleanup Restart Boot DeleteNode Forget"},
		{"remove, the agent only", removeOperation(), false, "Connect WaitForSlot Cordon Drain Cleanup Restart Boot DeleteNode Forget"},
		{"of another version", v1alpha1.Operation{Type: "Polish"}, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := plan(&tt.operation, tt.configured)
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
			for _, name := range got {
				if steps[name].run == nil || steps[name].describe(nil) == "" {
					t.Errorf("step %s cannot be run or described", name)
				}
			}
		})
	}
}

// TestRewind: what is done to the Node stays done, and all else is done again.
func TestRewind(t *testing.T) {
	now := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	tests := []struct {
		name   string
		states string // of Plan, Transfer, WaitForSlot, Cordon, Drain and Apply
		want   string
	}{
		{"nothing had to leave", "Succeeded Skipped Skipped Skipped Skipped Running", "Pending Pending Pending Pending Pending Pending"},
		{"the Node is drained", "Succeeded Succeeded Succeeded Succeeded Succeeded Running", "Pending Pending Pending Succeeded Succeeded Pending"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigureOperation()
			op.Steps = newSteps(plan(&op, true))
			first := slices.IndexFunc(op.Steps, func(s v1alpha1.OperationStep) bool { return s.Name == v1alpha1.StepPlan })
			for i, state := range strings.Fields(tt.states) {
				begin(&op.Steps[first+i], now)
				op.Steps[first+i].State = v1alpha1.OperationStepState(state)
			}
			op.Steps[first-1].State = v1alpha1.StepSucceeded
			rewind(&op, v1alpha1.StepPlan, v1alpha1.StepApply)
			var got []string
			for _, step := range op.Steps[first : first+6] {
				got = append(got, string(step.State))
				if step.State == v1alpha1.StepPending && step.StartedAt != nil {
					t.Errorf("%s has begun", step.Name)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if op.Steps[first-1].State != v1alpha1.StepSucceeded {
				t.Error("a step before is done again")
			}
		})
	}
}

// TestRebootTimeout: Windows may install updates during the restart for a configuration or a
// removal, where nobody can ask for more time. What follows the restart takes no longer for it.
func TestRebootTimeout(t *testing.T) {
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		step      string
		want      time.Duration
	}{
		{"reboot", rebootOperation(v1alpha1.RebootGraceful), v1alpha1.StepBoot, 20 * time.Minute},
		{"reboot with a time", v1alpha1.Operation{Type: v1alpha1.OperationReboot, Reboot: &v1alpha1.RebootOptions{TimeoutSeconds: new(int64(90))}}, v1alpha1.StepBoot, 90 * time.Second},
		{"configuration", v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, v1alpha1.StepBoot, time.Hour},
		{"configuration, request", v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, v1alpha1.StepRestart, time.Hour},
		{"configuration, Node", v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, v1alpha1.StepNodeReady, 20 * time.Minute},
		{"removal", v1alpha1.Operation{Type: v1alpha1.OperationRemove}, v1alpha1.StepBoot, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := rebootTimeout(&tt.operation, tt.step); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestReconsider: what an earlier plan did not need is decided once more; what a step found needless
// itself is not.
func TestReconsider(t *testing.T) {
	op := reconfigureOperation()
	op.Steps = newSteps(plan(&op, true))
	for _, name := range []string{v1alpha1.StepAgent, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepJoin} {
		op.FindStep(name).State = v1alpha1.StepSkipped
	}
	op.FindStep(v1alpha1.StepCordon).StartedAt = new(metav1.Now())
	reconsider(&op, v1alpha1.StepPlan)
	for name, want := range map[string]v1alpha1.OperationStepState{
		v1alpha1.StepAgent: v1alpha1.StepSkipped, v1alpha1.StepCordon: v1alpha1.StepSkipped, v1alpha1.StepDrain: v1alpha1.StepPending, v1alpha1.StepJoin: v1alpha1.StepPending,
	} {
		if got := op.FindStep(name).State; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
