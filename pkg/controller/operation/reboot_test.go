// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// TestRebootDeadline: the time of a reboot counts from its restart for all that follows; a
// configuration has it for each step, and an hour for the updates that Windows installs.
func TestRebootDeadline(t *testing.T) {
	t.Parallel()
	configuration := reconfigureOperation
	reboot := func() v1alpha1.Operation { return rebootOperation(v1alpha1.RebootGraceful) }
	ours := func() v1alpha1.Operation { return byController(reboot()) }
	for _, tt := range []struct {
		name      string
		operation func() v1alpha1.Operation
		current   string
		// restarted is how long ago the step Restart began. 0: it did not.
		restarted time.Duration
		want      time.Duration // from now
	}{
		{"a reboot", reboot, v1alpha1.StepBoot, 5 * time.Minute, 15 * time.Minute},
		{"a reboot, later", reboot, v1alpha1.StepNodeReady, 5 * time.Minute, 15 * time.Minute},
		{"a reboot that the controller wants", ours, v1alpha1.StepBoot, 5 * time.Minute, 55 * time.Minute},
		{"a reboot that the controller wants, later", ours, v1alpha1.StepNodeReady, 50 * time.Minute, 18 * time.Minute},
		{"services that are restarted", func() v1alpha1.Operation { return v1alpha1.Operation{Type: v1alpha1.OperationRestartServices} }, v1alpha1.StepNodeReady, 0, 18 * time.Minute},
		{"a configuration that restarts", configuration, v1alpha1.StepRestart, 5 * time.Minute, 55 * time.Minute},
		{"a configuration that waits for the restart", configuration, v1alpha1.StepBoot, 5 * time.Minute, 55 * time.Minute},
		{"a configuration after the restart", configuration, v1alpha1.StepNodeReady, 5 * time.Minute, 18 * time.Minute},
		{"a configuration without a restart", configuration, v1alpha1.StepNetwork, 0, 18 * time.Minute},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation()))
			r, _ := f.process()
			e := &execution{Reconciler: r, instance: f.get(), current: tt.current}
			op := e.operation()
			op.Steps = newSteps(plan(op, true))
			began := func(name string, ago time.Duration) {
				op.FindStep(name).StartedAt = new(metav1.NewTime(time.Now().Add(-ago)))
			}
			if began(tt.current, 2*time.Minute); tt.restarted > 0 {
				began(v1alpha1.StepRestart, tt.restarted)
			}
			if got := time.Until(e.rebootDeadline()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestServicesAfterARestart: without those that make a Node the reboot fails, others are told of, and
// what does not start with Windows is nobody's matter.
func TestServicesAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
		f.host.services = []api.Service{
			{Name: "containerd", StartType: "Automatic (Delayed)", State: "StartPending"}, {Name: "kubelet", StartType: "Manual", State: "Stopped"},
			{Name: "kube-proxy", StartType: "Automatic", State: "Stopped"}, {Name: "csi-proxy", StartType: "Automatic", State: "Running"}, {Name: "theirs", StartType: "Automatic", State: "Stopped"},
			{Name: api.ServiceName, StartType: "Automatic", State: "Stopped"},
		}
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to wait", func() bool {
			return strings.HasSuffix(f.get().Status.Operation.Message, "These do not run: containerd (StartPending).")
		})
		f.host.mu.Lock()
		f.host.services[0].State = "Running"
		f.host.mu.Unlock()
		op := f.waitForEnd()
		want := "All essential services that are installed are running. These start with the host and do not run yet: kube-proxy (Stopped), windows-node-agent (Stopped)."
		if got := op.FindStep(v1alpha1.StepServices).Message; op.Phase != v1alpha1.OperationSucceeded || got != want {
			t.Errorf("it is %s: %s; got %q, want %q", op.Phase, op.Message, got, want)
		}
	})
}

// TestKubeProxyAfterARestart: our agent starts it, once the network of pods exists. It is waited for before the Node takes pods again, for some time,
// and not where it cannot come.
func TestKubeProxyAfterARestart(t *testing.T) {
	t.Parallel()
	ours := api.Service{Name: "kube-proxy", StartType: "Manual", State: "Stopped", Description: "OpenShift managed kube-proxy"}
	const all, missing = "All essential services that are installed are running.", " These start with the host and do not run yet: kube-proxy (Stopped)."
	for _, tt := range []struct {
		name string
		set  func(*scriptedHost)
		// comes is after which time it runs. 0: never.
		comes, waits time.Duration
		want         string
	}{
		{"it comes with the network", func(*scriptedHost) {}, time.Minute, time.Minute, all},
		{"it does not come", func(*scriptedHost) {}, 0, proxyPatience, all + missing},
		{"it runs", func(h *scriptedHost) { h.services[0].State = "Running" }, 0, 0, all},
		{"the network of others does not exist", func(h *scriptedHost) { h.waiting = []api.Waiting{{Service: "kube-proxy", Network: "theirs"}} }, 0, 0, all},
		{"it is that of others", func(h *scriptedHost) { h.services[0].Description = "kube-proxy" }, 0, 0, all},
		{"somebody does not want it", func(h *scriptedHost) { h.services[0].StartType = "Disabled" }, 0, 0, all},
		{"the host is not configured", func(h *scriptedHost) { h.recorded = "" }, 0, 0, all},
		{"there is none", func(h *scriptedHost) { h.services = nil }, 0, 0, all},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			f.host.services, f.host.recorded = []api.Service{ours}, testRevision
			tt.set(f.host)
			r, _ := f.process()
			f.reconcile(r)
			if tt.waits > 0 {
				f.eventually("it to wait", func() bool {
					return f.get().Status.Operation.Message == "Waiting for kube-proxy. These do not run: kube-proxy (Stopped)."
				})
			}
			if tt.comes > 0 {
				time.Sleep(tt.comes) //nolint:forbidigo // the time of the bubble
				f.host.mu.Lock()
				f.host.services[0].State = "Running"
				f.host.mu.Unlock()
			}
			op := f.waitForEnd()
			step := op.FindStep(v1alpha1.StepServices)
			took := step.FinishedAt.Sub(step.StartedAt.Time)
			if op.Phase != v1alpha1.OperationSucceeded || step.Message != tt.want || took < tt.waits || took > tt.waits+10*time.Second {
				t.Errorf("it is %s: %s; after %s: %q, want %q", op.Phase, op.Message, took, step.Message, tt.want)
			}
		})
	}
}

// TestRoutesOfANode: a configuration takes routes away with the network that it makes, and puts those of
// the provider that the Node names back.
func TestRoutesOfANode(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{"aws:///us-east-1a/i-1": 6, "azure:///a/b": 0, "": 0} {
		inBubble(t, id, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.editNode(func(node *corev1.Node) { node.Spec.ProviderID = id })
			op := f.finish()
			message := op.FindStep(v1alpha1.StepNetwork).Message
			if op.Phase != v1alpha1.OperationSucceeded || len(f.host.routes) != want || strings.Contains(message, "Routes that were restored: 169.254.169.254, ") != (want > 0) {
				t.Errorf("it is %s, routes %v: %s", op.Phase, f.host.routes, message)
			}
		})
	}
}

// TestBlockedPods: the record has room for some, and every one is told of once.
func TestBlockedPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation()))
		p := drain.Progress{Total: 30, Terminating: 2}
		for n := range 20 {
			p.Blocked = append(p.Blocked, v1alpha1.BlockedPod{Namespace: "a", Name: string(rune('a' + n)), Budget: "c", Message: "d"})
		}
		f.drain.reports = []drain.Progress{p, p}
		most, said := 0, ""
		f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
			if op := i.Status.Operation; after && len(op.BlockedBy) > 0 {
				most, said = max(most, len(op.BlockedBy)), op.Message
			}
			return nil
		}
		f.finish()
		if want := "Evicting the pods of Node win-1: 0 of 30 have left. Being deleted: 2. Blocked: 20, the first is pod a/a"; most != 16 || !strings.HasPrefix(said, want) {
			t.Errorf("%d are recorded, with %q", most, said)
		}
		told := 0
		for _, e := range f.events {
			if e == "Warning EvictionBlocked" {
				told++
			}
		}
		if told != 20 {
			t.Errorf("told of %d", told)
		}
	})
}

// TestOperationChanged: what begins or ends an operation is looked at, and its progress is not.
func TestOperationChanged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change change
		want   bool
	}{
		{"nothing", func(*v1alpha1.WindowsInstance) {}, false},
		{"progress", func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Message = "It goes on." }, false},
		{"another one", func(i *v1alpha1.WindowsInstance) { i.Status.Operation.ID = "op-2" }, true},
		{"it ended", func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Phase = v1alpha1.OperationFailed }, true},
		{"it was canceled", func(i *v1alpha1.WindowsInstance) { i.Status.Operation.CancelRequestedAt = new(metav1.Now()) }, true},
		{"it is gone", func(i *v1alpha1.WindowsInstance) { i.Status.Operation = nil }, true},
		{"the instance is being deleted", func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.Now()) }, true},
		{"the instance is another one", func(i *v1alpha1.WindowsInstance) { i.UID = "another" }, true},
	} {
		before, after := newInstance(drainOperation()), newInstance(drainOperation(), tt.change)
		if got := operationChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestFilesThatVanish: what was sent and is not on the host any more when it is needed is sent again,
// once: somebody who deletes it all the time is not raced.
func TestFilesThatVanish(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]v1alpha1.OperationPhase{1: v1alpha1.OperationSucceeded, 2: v1alpha1.OperationFailed} {
		inBubble(t, string(want), func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			f.configure()
			f.host.needsFiles = true
			left := times
			f.host.fail["Apply"] = func() error {
				if left--; left >= 0 {
					f.host.needsFiles = true
				}
				return nil
			}
			op := f.finish()
			if op.Phase != want || f.host.count("Deliver") != 2 || (op.Phase == v1alpha1.OperationFailed) != strings.Contains(op.Message, "not on the host yet: kubelet.exe") {
				t.Errorf("it is %s, sent %d times: %s", op.Phase, f.host.count("Deliver"), op.Message)
			}
			if got := op.FindStep(v1alpha1.StepTransfer).Message; got != "Files on the host: 1, 5 MiB." {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestSlotIsWaitedForWithoutAWorker: hosts that wait for others do not keep these from being worked on.
func TestSlotIsWaitedForWithoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor())
		f.configure()
		f.host.impact, f.concurrent = config.ImpactDrain, 1
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to wait", func() bool {
			return strings.Contains(f.get().Status.Operation.Message, "changed host win-2 and failed")
		})
		r.runner.submit(testNodeKey, "op-2", laneLimited, false)
		f.eventually("another one to be worked on", func() bool { running, waiting := r.runner.load(); return running == 1 && waiting == 0 })
	})
}

// TestPodsAreWaitedForWithoutAWorker: drains that do not end, as somebody wants it, do not keep other hosts from being worked on.
func TestPodsAreWaitedForWithoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(drainOperation()), brokenNeighbor())
		f.concurrent = 1
		begins, end := make(chan time.Time, 1), make(chan struct{})
		f.drain.meanwhile = func() {
			begins <- time.Now()
			<-end
		}
		r, _ := f.process()
		f.reconcile(r)
		began := <-begins
		r.runner.submit(testNodeKey, "op-2", laneRequested, false)
		f.eventually("another one to be worked on", func() bool { running, waiting := r.runner.load(); return running == 1 && waiting == 0 })
		if took := time.Since(began); took < workerPatience || took > workerPatience+time.Minute {
			t.Errorf("it has kept its worker for %s, want %s", took, workerPatience)
		}
		close(end)
		f.waitForEnd()
	})
}

// TestHostIsWaitedForWithoutAWorker: hosts that do not come back from a restart, or whose kubelet does not, which may take an hour, do not keep
// others from being worked on. Where nothing else bounds how many of them are out of service, workers do for a while.
func TestHostIsWaitedForWithoutAWorker(t *testing.T) {
	t.Parallel()
	dead, silent := func(f *fixture) { f.host.dead = true }, func(f *fixture) { f.silent.Store(true) }
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		step      string
		set       func(*fixture)
		// keeps is for how long no other one begins.
		keeps time.Duration
	}{
		{"a restart that the controller wants", byController(rebootOperation(v1alpha1.RebootGraceful)), v1alpha1.StepBoot, dead, 0},
		{"its kubelet does not report", byController(rebootOperation(v1alpha1.RebootGraceful)), v1alpha1.StepNodeReady, silent, 0},
		{"a restart that a person asked for", rebootOperation(v1alpha1.RebootForce), v1alpha1.StepBoot, dead, workerPatience},
		{"its kubelet does not report, and a person asked for it", rebootOperation(v1alpha1.RebootForce), v1alpha1.StepNodeReady, silent, workerPatience},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation), brokenNeighbor())
			f.concurrent = 1
			tt.set(f)
			r, _ := f.process()
			f.reconcile(r)
			var began time.Time
			f.eventually("it to wait", func() bool {
				s := f.get().Status.Operation.FindStep(tt.step)
				if s == nil || s.State != v1alpha1.StepRunning {
					return false
				}
				began = s.StartedAt.Time
				return true
			})
			r.runner.submit(testNodeKey, "op-2", laneOf(&tt.operation), false)
			f.eventually("another one to be worked on", func() bool { running, waiting := r.runner.load(); return running == 1 && waiting == 0 })
			if took := time.Since(began); took < tt.keeps || took > tt.keeps+time.Minute {
				t.Errorf("it has kept its worker for %s, want %s", took, tt.keeps)
			}
		})
	}
}

// TestQuestionsAroundRestart: what a host that joins has just said it is not asked once more, and it is looked for over the connection on which it
// has just agreed to restart. Whoever takes that over does not know whether the connection lives.
func TestQuestionsAroundRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), withoutNode))
		f.configure()
		f.host.impact, f.host.needsReboot, f.host.is, f.host.lingers = config.ImpactReboot, 1, "", 1
		f.registers()
		applied := f.host.onApplied
		f.host.onApplied = func(is string) {
			f.host.impact = config.ImpactRestart
			applied(is)
		}
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded {
			t.Fatalf("it is %s: %s", op.Phase, op.Message)
		}
		// For the steps Facts, NodeReady (when it was started) and NodeReady (its services); for the steps Plan (to join, and without) and Verify.
		if facts, plans := f.host.count("Facts"), f.host.count("Plan"); facts != 3 || plans != 3 {
			t.Errorf("it was asked for facts %d times and for a plan %d times, want 3 and 3", facts, plans)
		}
		if got := f.host.afterRestart(); got[0] != "BootID same" {
			t.Errorf("after the restart it was asked %v, want the same connection first", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootGraceful), takenOverAt(v1alpha1.StepBoot, "")))
		f.finish()
		if got := f.host.afterRestart(); got[0] != "BootID new" {
			t.Errorf("an operation that was taken over asked %v, want a new connection first", got)
		}
	})
}
