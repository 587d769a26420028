// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
)

// takenOverAt is an operation that another process was killed in, at a step that it had begun.
func takenOverAt(running string, impact v1alpha1.ChangeImpact) change {
	return func(i *v1alpha1.WindowsInstance) {
		op := i.Status.Operation
		op.Phase, op.Impact, op.Steps = v1alpha1.OperationRunning, impact, newSteps(plan(op, true))
		op.StartedAt = new(metav1.Now())
		op.Node = &v1alpha1.OperationNode{Name: testNode, UID: "uid-of-node"}
		for n := range op.Steps {
			op.Steps[n].StartedAt = new(metav1.Now())
			if op.Steps[n].State = v1alpha1.StepSucceeded; op.Steps[n].Name == running {
				op.Steps[n].State = v1alpha1.StepRunning
				break
			}
		}
	}
}

// TestCordonSaysWhose: only an operation of the same kind may lift the cordon of one that failed; that
// of a drain or a removal stays. Each names the Node that it is meant for, as it was when it was read.
func TestCordonSaysWhose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		operation v1alpha1.Operation
		change    change
		want      string
	}{
		{drainOperation(), nil, "op-1 (asked for by alice)"},
		{rebootOperation(v1alpha1.RebootGraceful), nil, "op-1 Reboot (asked for by alice)"},
		{reconfigureOperation(), nil, "op-1 Reconfigure (asked for by alice)"},
		{removeOperation(), isBeingDeleted, "op-1 (asked for by alice)"},
	} {
		inBubble(t, string(tt.operation.Type), func(t *testing.T) {
			changes := []change{configuredBefore}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			f := newFixture(t, newInstance(tt.operation, changes...))
			f.configure()
			f.host.impact = config.ImpactDrain
			node := f.node()
			node.ResourceVersion = "7"
			f.updateNode(node)
			for _, request := range []string{"Restart", "Apply", "Cleanup"} {
				f.failWith(request, &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("exit code 1")})
			}
			f.finish()
			node = f.node()
			if got := node.Annotations[v1alpha1.CordonedByAnnotation]; !node.Spec.Unschedulable || got != tt.want {
				t.Errorf("cordoned %v with the mark %q, want %q", node.Spec.Unschedulable, got, tt.want)
			}
			for _, action := range f.kube.Actions() {
				if patch, ok := action.(clienttesting.PatchActionImpl); ok && (!strings.Contains(string(patch.Patch), `"resourceVersion":"7"`) || !strings.Contains(string(patch.Patch), `"uid":"uid-of-node"`)) {
					t.Errorf("patched with %s", patch.Patch)
				}
			}
		})
	}
}

// TestLateReboot: the Node itself says that it is to be uncordoned when its host is back, where the record of the reboot may be gone by
// then; and only if the host was late, and the reboot had cordoned it.
func TestLateReboot(t *testing.T) {
	t.Parallel()
	const byAlice = "op-1 Reboot (asked for by alice)"
	const before = "op-0 Reboot (asked for by bob)"
	dead := func(f *fixture) { f.host.dead = true }
	stopped := func(f *fixture) {
		f.host.services = []api.Service{{Name: "kubelet", StartType: "Automatic", State: "Stopped"}}
	}
	for _, tt := range []struct {
		name     string
		mark     string
		mode     v1alpha1.RebootMode
		set      func(*fixture)
		want     string
		awaited  bool
		leftover string
	}{
		{"it does not come back", "", v1alpha1.RebootGraceful, dead, byAlice, true, "Node win-1 stays cordoned until it is ready again"},
		{"its kubelet does not start", "", v1alpha1.RebootGraceful, stopped, byAlice, true, "Node win-1 stays cordoned until it is ready again"},
		{"it does not come back, once more", before, v1alpha1.RebootGraceful, dead, byAlice, true, "Node win-1 stays cordoned until it is ready again"},
		{"it does not come back, and was not cordoned for that", before, v1alpha1.RebootForce, dead, before, false, ""},
		{"it is not restarted", "", v1alpha1.RebootGraceful, func(f *fixture) {
			f.failWith("Restart", &agentclient.Error{Step: agentclient.StepRun, Err: errors.New("exit code 1")})
		}, byAlice, false, "repair what is wrong"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(tt.mode)))
			if tt.mark != "" {
				f.cordonAs(tt.mark)
			}
			tt.set(f)
			op := f.finish()
			mark := f.node().Annotations[v1alpha1.CordonedByAnnotation]
			after, awaited := drain.AwaitedFor(f.node(), string(v1alpha1.OperationReboot))
			if op.Phase != v1alpha1.OperationFailed || !strings.HasPrefix(mark, tt.want) || awaited != tt.awaited || awaited && !after.Equal(op.FindStep(v1alpha1.StepBoot).StartedAt.Time) {
				t.Errorf("it is %s: %s; the mark is %q", op.Phase, op.Message, mark)
			}
			if !strings.Contains(op.Message, tt.leftover) || tt.leftover == "" && strings.Contains(op.Message, "stays cordoned") {
				t.Errorf("it says %s", op.Message)
			}
		})
	}
}

// TestDrainStays: a Node that somebody has drained takes no pods because something else succeeds that would have lifted the cordon from
// before, unless the drain is canceled.
func TestDrainStays(t *testing.T) {
	t.Parallel()
	const byReconfigure = "op-0 Reconfigure (asked for by windows-controller)"
	const byReboot = "op-0 Reboot (asked for by windows-controller)"
	for _, tt := range []struct {
		name     string
		mark     string
		cancel   bool
		then     v1alpha1.Operation
		cordoned bool
	}{
		{"a configuration, after one that failed", byReconfigure, false, reconfigureOperation(), true},
		{"a reboot, after one that failed", byReboot, false, rebootOperation(v1alpha1.RebootGraceful), true},
		{"a Node that came back", byReboot, false, v1alpha1.Operation{ID: "op-2", Type: v1alpha1.OperationUncordon, Phase: v1alpha1.OperationPending, Cause: v1alpha1.CauseCameBack, RequestedBy: v1alpha1.ControllerRequester}, true},
		{"a configuration, after a drain that was canceled", byReconfigure, true, reconfigureOperation(), false},
		{"a reboot, after a drain that was canceled", byReboot, true, rebootOperation(v1alpha1.RebootGraceful), false},
		{"a configuration, after a drain that was canceled on a Node of others", "", true, reconfigureOperation(), true},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(drainOperation(), configuredBefore))
			f.configure()
			f.cordonAs(tt.mark)
			f.host.impact = config.ImpactRestart
			f.drain.block = tt.cancel
			r, stop := f.process()
			f.reconcile(r)
			if tt.cancel {
				f.eventually("the pods to be evicted", func() bool {
					evict := f.get().Status.Operation.FindStep(v1alpha1.StepEvict)
					return evict != nil && evict.State == v1alpha1.StepRunning
				})
				f.edit(func(i *v1alpha1.WindowsInstance) {
					i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
				})
				f.reconcile(r)
			}
			op := f.waitForEnd()
			if tt.cancel && (op.Phase != v1alpha1.OperationCanceled || f.node().Annotations[v1alpha1.CordonedByAnnotation] != tt.mark || !f.node().Spec.Unschedulable) {
				t.Errorf("the drain is %s: %s; the mark is %q", op.Phase, op.Message, f.node().Annotations[v1alpha1.CordonedByAnnotation])
			}
			stop()
			f.drain.block = false
			tt.then.ID, tt.then.Phase = "op-2", v1alpha1.OperationPending
			f.edit(func(i *v1alpha1.WindowsInstance) {
				if err := i.Status.Record(&tt.then); err != nil {
					t.Error(err)
				}
			})
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.node().Spec.Unschedulable != tt.cordoned {
				t.Errorf("%s is %s, and the Node is cordoned: %t, with the mark %q: %s", op.Type, op.Phase, f.node().Spec.Unschedulable, f.node().Annotations[v1alpha1.CordonedByAnnotation], op.Message)
			}
		})
	}
}

// TestNodeWasReplaced: another Node of the name is another one's, whenever it comes.
func TestNodeWasReplaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step      string
		operation v1alpha1.Operation
		want      v1alpha1.OperationPhase
		message   string
	}{
		{v1alpha1.StepCordon, rebootOperation(v1alpha1.RebootGraceful), v1alpha1.OperationFailed, "not found"},
		{v1alpha1.StepUncordon, v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, v1alpha1.OperationFailed, "not found"},
		{v1alpha1.StepUncordon, rebootOperation(v1alpha1.RebootGraceful), v1alpha1.OperationSucceeded, "Node win-1 was deleted meanwhile."},
	} {
		inBubble(t, fmt.Sprintf("%s, %s", tt.operation.Type, tt.step), func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation))
			f.whenItBegins(tt.step, func() {
				node := f.node()
				node.UID, node.Spec.Unschedulable = "another", true
				f.updateNode(node)
			})
			op := f.finish()
			if !f.node().Spec.Unschedulable || op.Phase != tt.want || !strings.Contains(op.Message, tt.message) {
				t.Errorf("cordoned %v, it is %s: %s", f.node().Spec.Unschedulable, op.Phase, op.Message)
			}
		})
	}
}

// TestNodeCannotBeChanged: that the Node is left in another state than it should be is in the message.
func TestNodeCannotBeChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		impact    config.Impact
		reason    api.FailureReason
		cancel    bool
		// refused is which request to change the Node is refused.
		refused int
		want    []string
	}{
		{"it was not changed", reconfigureOperation(), config.ImpactDrain, api.ReasonConflict, false, 2, []string{"The host was not changed. The Node cannot be uncordoned: "}},
		{"it was changed", reconfigureOperation(), config.ImpactRestart, api.ReasonStep, false, 1, []string{" The Node cannot be cordoned: "}},
		{"it was canceled", rebootOperation(v1alpha1.RebootGraceful), "", "", true, 2, []string{"Canceled by bob.", "1 of 2 pods have left", " The Node cannot be uncordoned: "}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation))
			f.configure()
			f.host.impact = tt.impact
			f.host.result = func() *api.Result { return &api.Result{Outcome: api.OutcomeFailed, Reason: tt.reason, Error: "why"} }
			patches := 0
			f.kube.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
				if patches++; patches < tt.refused {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), testNode, errors.New("a webhook minds"))
			})
			f.drain.reports, f.drain.block = []drain.Progress{{Total: 2, Gone: 1}}, tt.cancel
			r, _ := f.process()
			f.reconcile(r)
			if tt.cancel {
				f.eventually("pods to leave", func() bool { return f.get().Status.Operation.Progress != nil })
				f.edit(func(i *v1alpha1.WindowsInstance) {
					i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
				})
				f.reconcile(r)
			}
			op := f.waitForEnd()
			for _, want := range append(tt.want, "a webhook minds") {
				if !strings.Contains(op.Message, want) {
					t.Errorf("%q is missing in %q", want, op.Message)
				}
			}
		})
	}
}

// TestTakenOverWhileTheHostIsChanged: nobody knows how far the other process came, so that no pods
// come to the host; what only was to be sent did not change it.
func TestTakenOverWhileTheHostIsChanged(t *testing.T) {
	t.Parallel()
	for step, changed := range map[string]bool{
		v1alpha1.StepPlan: false, v1alpha1.StepTransfer: false, v1alpha1.StepApply: true, v1alpha1.StepFinish: true, v1alpha1.StepNetwork: true,
	} {
		inBubble(t, step, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), takenOverAt(step, v1alpha1.ImpactRestart), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepJoin).State = v1alpha1.StepSkipped, v1alpha1.StepSkipped
				op.Revision = "older"
			}))
			f.configure()
			f.host.impact = config.ImpactRestart
			for _, request := range []string{"Plan", "Apply"} {
				f.failWith(request, errNoLogin)
			}
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || f.node().Spec.Unschedulable != changed || op.HostChanged != changed || strings.Contains(op.Message, "The host was not changed.") == changed {
				t.Errorf("it is %s, cordoned %v, changed %v: %s", op.Phase, f.node().Spec.Unschedulable, op.HostChanged, op.Message)
			}
		})
	}
}

// TestRestartThatWasNotSent: a host that cannot be reached any more is asked for a while, and then it is
// certain that it was not restarted, so that the next operation is not told otherwise.
func TestRestartThatWasNotSent(t *testing.T) {
	t.Parallel()
	for _, away := range []int{2, 1000} {
		inBubble(t, fmt.Sprintf("%d times", away), func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			left := away
			f.host.fail["Restart"] = func() error {
				if left--; left < 0 {
					return nil
				}
				return errRefusedPort
			}
			op := f.finish()
			if away == 2 {
				if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || f.host.count("Restart") != 3 || op.BootID != "boot-1" {
					t.Errorf("it is %s, restarted %d times: %s", op.Phase, f.host.restarts(), op.Message)
				}
				return
			}
			asked := f.host.count("Restart")
			if op.Phase != v1alpha1.OperationFailed || op.BootID != "" || asked < 10 || asked > 30 || !strings.Contains(op.Message, "did not accept the restart request") || !strings.Contains(op.Message, "The host was not restarted.") {
				t.Errorf("it is %s, asked %d times, boot ID %q: %s", op.Phase, asked, op.BootID, op.Message)
			}
		})
	}
}

// TestSupersededIsNotAsked: a host that another instance has by now is not asked for what is on it, and
// keeps all that it has.
func TestSupersededIsNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(removeOperation(), untouched, isBeingDeleted))
		f.configure()
		f.superseded = "Instance new has it."
		f.failWith("Facts", errNoLogin)
		op := f.finish()
		if op.Phase != v1alpha1.OperationFailed || op.Message != f.superseded || f.host.count("Facts")+f.host.count("Cleanup") > 0 || f.findNode() == nil {
			t.Errorf("it is %s, asked %v: %s", op.Phase, f.host.asked, op.Message)
		}
	})
}

// TestOthersAreHeardOf: an end is told with an event, which is a warning if it is a failure.
func TestOthersAreHeardOf(t *testing.T) {
	t.Parallel()
	for want, login := range map[string]error{"Normal RebootSucceeded": nil, "Warning RebootFailed": errNoLogin} {
		inBubble(t, want, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			f.failWith("Login", login)
			f.finish()
			f.waitForEvent(want)
			if !slices.Contains(f.events, "Normal RebootStarted") {
				t.Errorf("got %v", f.events)
			}
		})
	}
}
