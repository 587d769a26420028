// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// requests are how often the host and the cluster were asked for what cannot be taken back.
func (f *fixture) requests(what string) int {
	if verb, ok := strings.CutSuffix(what, " Node"); ok {
		n := 0
		for _, action := range f.kube.Actions() {
			if action.Matches(verb, "nodes") {
				n++
			}
		}
		return n
	}
	return f.host.count(what)
}

// whenItBegins calls f once, right after it was recorded that a step begins.
func (f *fixture) whenItBegins(step string, do func()) {
	var once atomic.Bool
	f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
		if s := i.Status.Operation.FindStep(step); after && s != nil && s.State == v1alpha1.StepRunning && once.CompareAndSwap(false, true) {
			do()
		}
		return nil
	}
}

// TestNothingIsRequestedInVain: between the record that a step begins and its request, somebody
// else has taken over, or has canceled the operation, which nobody has told this execution.
func TestNothingIsRequestedInVain(t *testing.T) {
	t.Parallel()
	reboot := rebootOperation(v1alpha1.RebootGraceful)
	for _, tt := range []struct {
		step      string
		operation v1alpha1.Operation
		impact    config.Impact
		request   string
		// before is how many such requests earlier steps make.
		before int
	}{
		{v1alpha1.StepCordon, reboot, "", "patch Node", 0},
		{v1alpha1.StepRestart, reboot, "", "Restart", 0},
		{v1alpha1.StepUncordon, reboot, "", "patch Node", 1},
		{v1alpha1.StepUncordon, v1alpha1.Operation{Type: v1alpha1.OperationUncordon}, "", "patch Node", 0},
		{v1alpha1.StepApply, reconfigureOperation(), config.ImpactNone, "Apply", 0},
		{v1alpha1.StepCordon, reconfigureOperation(), config.ImpactDrain, "patch Node", 0},
		{v1alpha1.StepCleanup, removeOperation(), "", "Cleanup", 0},
		{v1alpha1.StepDeleteNode, removeOperation(), "", "delete Node", 0},
	} {
		for _, how := range []string{"taken over", "canceled"} {
			inBubble(t, fmt.Sprintf("%s, %s, %s", tt.operation.Type, tt.step, how), func(t *testing.T) {
				changes := []change{}
				if tt.operation.Type == v1alpha1.OperationRemove {
					changes = append(changes, isBeingDeleted)
				}
				f := newFixture(t, newInstance(tt.operation, changes...))
				f.configure()
				f.host.impact = tt.impact
				if tt.operation.Type == v1alpha1.OperationUncordon {
					f.cordonByHand()
				}
				var taken atomic.Bool
				f.whenItBegins(tt.step, func() {
					if how == "taken over" {
						taken.Store(true)
						return
					}
					f.edit(func(i *v1alpha1.WindowsInstance) {
						i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
					})
				})
				r, _ := f.process()
				r.Leads = func(context.Context) (bool, error) { return !taken.Load(), nil }
				f.reconcile(r)
				f.eventually("it to end", func() bool {
					running, waiting := r.runner.load()
					return running+waiting == 0
				})
				if got := f.requests(tt.request); got != tt.before {
					t.Errorf("%s was requested %d times, want %d", tt.request, got, tt.before)
				}
				if op := f.get().Status.Operation; op.Active() != (how == "taken over") || op.FindStep(tt.step).StartedAt == nil {
					t.Errorf("it is %s: %s", op.Phase, op.Message)
				}
			})
		}
	}
}

// TestNothingIsRequestedAgainInVain: the connection to a host that is changed breaks, and somebody
// else takes over before it is made again.
func TestNothingIsRequestedAgainInVain(t *testing.T) {
	t.Parallel()
	for request, operation := range map[string]v1alpha1.Operation{"Apply": reconfigureOperation(), "Cleanup": removeOperation(), "Restart": rebootOperation(v1alpha1.RebootForce), "Deliver": reconfigureOperation()} {
		inBubble(t, request, func(t *testing.T) {
			changes := []change{}
			if operation.Type == v1alpha1.OperationRemove {
				changes = append(changes, isBeingDeleted)
			}
			f := newFixture(t, newInstance(operation, changes...))
			f.configure()
			f.host.needsFiles = request == "Deliver"
			var taken atomic.Bool
			f.host.fail[request] = func() error {
				taken.Store(true)
				return errLost
			}
			r, _ := f.process()
			r.Leads = func(context.Context) (bool, error) { return !taken.Load(), nil }
			f.reconcile(r)
			f.eventually("it to end", func() bool {
				running, waiting := r.runner.load()
				return taken.Load() && running+waiting == 0
			})
			if got := f.requests(request); got != 1 || !f.get().Status.Operation.Active() {
				t.Errorf("it was requested %d times, and the operation of the other process is %s", got, f.get().Status.Operation.Phase)
			}
		})
	}
}

// TestRestartThatMayHaveBeenSent: once an answer was lost, or another process may have asked, no
// error says that the host was not restarted.
func TestRestartThatMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	for _, byAnother := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("by another process: %v", byAnother), func(t *testing.T) {
			operation := rebootOperation(v1alpha1.RebootForce)
			operation.Reboot.TimeoutSeconds = new(int64(60))
			f := newFixture(t, newInstance(operation, func(i *v1alpha1.WindowsInstance) {
				if !byAnother {
					return
				}
				op := i.Status.Operation
				op.Phase, op.BootID, op.Steps = v1alpha1.OperationRunning, "boot-1", newSteps(plan(op, true))
				op.Steps[0].State, op.Steps[0].StartedAt = v1alpha1.StepSucceeded, new(metav1.Now())
				op.Steps[1].State, op.Steps[1].StartedAt = v1alpha1.StepRunning, new(metav1.Now())
			}))
			lost := byAnother
			f.host.fail["Restart"] = func() error {
				if !lost {
					lost = true
					return errLost
				}
				return errNoLogin
			}
			op := f.finish()
			if op.Phase != v1alpha1.OperationFailed || op.BootID != "boot-1" || strings.Contains(op.Message, "was not restarted") || !strings.Contains(op.Message, "not known whether the host received") {
				t.Errorf("it is %s, boot ID %q: %s", op.Phase, op.BootID, op.Message)
			}
		})
	}
}

// TestRestartOfServicesIsNoRestartOfWindows: a host that wants more than was planned is planned
// again, and drained, before it is restarted.
func TestRestartOfServicesIsNoRestartOfWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.impact, f.host.needsReboot = config.ImpactRestart, 1
		drained := 0
		f.host.fail["Restart"] = func() error {
			f.drain.mu.Lock()
			defer f.drain.mu.Unlock()
			drained = f.drain.runs
			return nil
		}
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != 1 || drained != 1 {
			t.Errorf("it is %s, restarted %d times, drained %d times before: %s", op.Phase, f.host.restarts(), drained, op.Message)
		}
	})
}

// TestBlank: what could not be read on a host may be there, and its Node is not deleted then.
func TestBlank(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		facts api.Facts
		want  bool
	}{
		{"nothing is there", api.Facts{}, true},
		{"other services", api.Facts{Services: []api.Service{{Name: "sshd"}}}, true},
		{"something else could not be read", api.Facts{Errors: []api.FactError{{Area: "disks"}}}, true},
		{"a kubelet", api.Facts{Services: []api.Service{{Name: "Kubelet"}}}, false},
		{"services could not be read", api.Facts{Errors: []api.FactError{{Area: "services"}}}, false},
		{"a service could not be read", api.Facts{Errors: []api.FactError{{Area: "services/kubelet"}}}, false},
		{"what it was configured with could not be read", api.Facts{Errors: []api.FactError{{Area: "configuration"}}}, false},
		{"it was configured", api.Facts{Configuration: api.ConfigurationFacts{AppliedRevision: "r"}}, false},
		{"it was being configured", api.Facts{Configuration: api.ConfigurationFacts{ApplyingRevision: "r"}}, false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			if got := blank(&tt.facts); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.kubeletIsGone()
			r, _ := f.process()
			e := f.executing(r, v1alpha1.StepPlan)
			e.facts = &tt.facts
			e.instance.Status.Operation.Node = &v1alpha1.OperationNode{Name: testNode, UID: "uid-of-node"}
			e.instance.Status.Operation.Steps = newSteps([]string{v1alpha1.StepPlan})
			begin(&e.instance.Status.Operation.Steps[0], time.Now())
			if _, err := e.dropNode(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := f.requests("delete Node"); (got == 1) != tt.want {
				t.Errorf("the Node was deleted %d times", got)
			}
		})
	}
}

// TestDropNodeKeepsToItsNode: of a host that was reinstalled the Node is deleted that nobody reports for, and not one that has got its name since, also if
// that is known as that of the host.
func TestDropNodeKeepsToItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps([]string{v1alpha1.StepPlan})
			op.Node = &v1alpha1.OperationNode{Name: testNode, UID: "uid-of-node"}
			begin(&op.Steps[0], time.Now())
			i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "another"}
		}))
		f.refuseOtherUIDs()
		node := f.node()
		node.UID = "another"
		f.updateNode(node)
		r, _ := f.process()
		e := f.executing(r, v1alpha1.StepPlan)
		e.facts = &api.Facts{}
		if _, err := e.dropNode(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f.findNode() == nil {
			t.Error("the Node of another machine was deleted")
		}
	})
}

// TestDropNodeIsKept: a host that was reinstalled does not get its former Node back, which a finalizer keeps.
func TestDropNodeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation()))
		f.configure()
		f.host.is, f.host.recorded, f.host.services = "", "", nil
		f.kubeletIsGone()
		f.keepNode("example.com/a")
		op := f.finish()
		if op.Phase != v1alpha1.OperationFailed || op.Node == nil || len(f.host.applies) > 0 || !strings.Contains(op.Message, "Node win-1 is being deleted. Its finalizers keep it: example.com/a") {
			t.Errorf("it is %s, applied %q: %s", op.Phase, f.host.applies, op.Message)
		}
	})
}

// TestDeletionNamesItsNode: another Node of the name, which comes between, is not deleted.
func TestDeletionNamesItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(removeOperation(), isBeingDeleted))
		f.configure()
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
			t.Fatalf("it is %s: %s", op.Phase, op.Message)
		}
		deletions := slices.DeleteFunc(f.kube.Actions(), func(a clienttesting.Action) bool { return !a.Matches("delete", "nodes") })
		if len(deletions) != 1 {
			t.Fatalf("%d deletions", len(deletions))
		}
		deletion, ok := deletions[0].(clienttesting.DeleteActionImpl)
		if p := deletion.DeleteOptions.Preconditions; !ok || deletion.Name != testNode || p == nil || p.UID == nil || *p.UID != "uid-of-node" {
			t.Errorf("got %+v", deletion)
		}
	})
}
