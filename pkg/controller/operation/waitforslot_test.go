// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func inPool(name string) change {
	return func(i *v1alpha1.WindowsInstance) {
		i.Spec.PoolRef = &v1alpha1.PoolReference{Name: name}
	}
}

func askedForBy(who string) change {
	return func(i *v1alpha1.WindowsInstance) { i.Status.Operation.RequestedBy = who }
}

// reconfigured is a configuration that has ended, and failed while the host was changed
// if it failed.
func reconfigured(phase v1alpha1.OperationPhase, impact v1alpha1.ChangeImpact) v1alpha1.Operation {
	op := reconfigureOperation()
	op.ID, op.Phase, op.Impact, op.Steps = "op-"+strings.ToLower(string(phase)), phase, impact, newSteps(plan(&op, true))
	op.HostChanged = true
	op.Node = &v1alpha1.OperationNode{Name: "win-2"}
	return op
}

// brokenNeighbor is another host of the pool, which a configuration broke.
func brokenNeighbor() *v1alpha1.WindowsInstance {
	return newInstance(reconfigureOperation(), inPool("pool"), func(i *v1alpha1.WindowsInstance) {
		i.Name, i.UID = "win-2", "uid-2"
		*i.Status.Operation = reconfigured(v1alpha1.OperationFailed, v1alpha1.ImpactDrain)
	})
}

// TestOneAtATime: a host waits while another one is disrupted, and goes on when that is over.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
			i.Name, i.UID = "win-2", "uid-2"
			op := i.Status.Operation
			op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(plan(op, true))
			for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain} {
				op.FindStep(name).State = v1alpha1.StepSucceeded
			}
		})
		f := newFixture(t, newInstance(reconfigureOperation()), other)
		f.configure()
		f.host.impact = config.ImpactDrain
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to wait", func() bool {
			return strings.HasPrefix(f.get().Status.Operation.Message, "Waits for a slot: another host is being changed: win-2;")
		})
		if f.node().Spec.Unschedulable || f.drain.runs > 0 {
			t.Error("it does not wait")
		}
		if err := f.raw.Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded || f.drain.runs != 1 {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestServicesAreRestartedOnOneHostFirst: what restarts services reaches one host of a pool, and the others when
// that works; none while one of the pool is broken by it. What a person asks for does not wait.
func TestServicesAreRestartedOnOneHostFirst(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  string
		// broken: there is another host of the pool, which is. Otherwise another one is being changed.
		broken bool
		waits  string
	}{
		{"another one is the first", v1alpha1.ControllerRequester, false, "one host of pool pool is updated first: win-2."},
		{"one is broken", v1alpha1.ControllerRequester, true, "changed host win-2 and failed"},
		{"a person asks for it", "alice", true, ""},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			other := brokenNeighbor()
			if !tt.broken {
				op := other.Status.Operation
				op.Phase, op.AdmittedImpact, op.Impact, op.RequestedBy = v1alpha1.OperationRunning, v1alpha1.ImpactRestart, v1alpha1.ImpactRestart, v1alpha1.ControllerRequester
			}
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(tt.who)), other)
			f.configure()
			f.host.impact = config.ImpactRestart
			r, _ := f.process()
			f.reconcile(r)
			if tt.waits != "" {
				f.eventually("it to wait", func() bool { return strings.Contains(f.get().Status.Operation.Message, tt.waits) })
				if f.get().Status.Operation.FindStep(v1alpha1.StepApply).State != v1alpha1.StepPending || wasApplied(f) {
					t.Error("it does not wait")
				}
				if tt.broken {
					return
				}
				other.Status.Operation.Phase, other.Status.Operation.FinishedAt = v1alpha1.OperationSucceeded, new(metav1.Now())
				if err := f.raw.Status().Update(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestWhatBreaksOneHostDoesNotReachTheNext: it waits, and says for whom and what can be
// done, until the other host is well. Hosts of other pools go first meanwhile.
func TestWhatBreaksOneHostDoesNotReachTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := brokenNeighbor()
		f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)), other)
		f.configure()
		f.host.impact = config.ImpactDrain
		r, _ := f.process()
		f.reconcile(r)
		f.eventually("it to wait", func() bool {
			message := f.get().Status.Operation.Message
			return strings.Contains(message, "Operation op-failed changed host win-2 and failed.") && strings.Contains(message, "kubectl windows describe win-2 -n windows-hosts")
		})
		if f.node().Spec.Unschedulable || f.drain.runs > 0 {
			t.Error("it does not wait")
		}
		done := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain)
		other.Status.History, other.Status.Operation = []v1alpha1.Operation{*other.Status.Operation}, &done
		if err := f.raw.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded || f.drain.runs != 1 {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
	})
}

// TestJoiningAgainNeedsNoSlot: a host that is out of service does not wait until others may be.
func TestJoiningAgainNeedsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor())
		f.configure()
		f.losesCertificate()
		f.kubeletIsGone()
		f.rejoins()
		if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || op.Impact != v1alpha1.ImpactRestart {
			t.Errorf("it is %s with impact %s: %s", op.Phase, op.Impact, op.Message)
		}
	})
}

// TestJoiningAgainWaitsNoLonger: a host that waits for others, and goes out of service meanwhile, is
// planned again and joins at once, drained if that costs more. While it is only out of reach it waits.
func TestJoiningAgainWaitsNoLonger(t *testing.T) {
	t.Parallel()
	for impact, want := range map[config.Impact]string{config.ImpactRestart: "SSSS Skkkk Skkk SSSSS", config.ImpactDrain: "SSSS SkkSS Skkk SSSSS"} {
		inBubble(t, string(impact), func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester)), brokenNeighbor())
			f.configure()
			f.host.impact = config.ImpactRestart
			f.rejoins()
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("it to wait", func() bool {
				return strings.Contains(f.get().Status.Operation.Message, "changed host win-2 and failed")
			})
			before := f.host.count("Facts")
			f.host.mu.Lock()
			f.host.certificate, f.host.unanswered, f.host.impact = &api.KubeletCertificate{Problem: api.CertificateExpired}, 1, impact
			f.host.mu.Unlock()
			f.kubeletIsGone()
			op := f.waitForEnd()
			if got := short(op); op.Phase != v1alpha1.OperationSucceeded || got != want || f.host.count("Facts") < before+2 {
				t.Errorf("it is %s, %s: %s", op.Phase, got, op.Message)
			}
			if len(f.host.applies) == 0 || f.host.applies[0] != "new with credentials "+string(impact) || (f.drain.runs == 1) != (impact == config.ImpactDrain) || f.node().Spec.Unschedulable {
				t.Errorf("applied %v, drained %d times, cordoned %v", f.host.applies, f.drain.runs, f.node().Spec.Unschedulable)
			}
		})
	}
}

// wasApplied says whether the host was configured.
func wasApplied(f *fixture) bool {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	return len(f.host.applies) > 0
}

// TestWaitingForASlotTouchesNothing: a host that waits can be taken back as if nobody had
// ever asked.
func TestWaitingForASlotTouchesNothing(t *testing.T) {
	t.Parallel()
	for _, impact := range []config.Impact{config.ImpactRestart, config.ImpactDrain} {
		for _, deleted := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, deleted %v", impact, deleted), func(t *testing.T) {
				f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), func(i *v1alpha1.WindowsInstance) {
					i.Finalizers = []string{v1alpha1.HostFinalizer}
				}), brokenNeighbor())
				f.configure()
				f.host.impact = impact
				r, _ := f.process()
				f.reconcile(r)
				f.eventually("it to wait", func() bool {
					return strings.Contains(f.get().Status.Operation.Message, "changed host win-2 and failed")
				})
				if deleted {
					if err := f.raw.Delete(t.Context(), f.get()); err != nil {
						t.Fatal(err)
					}
				} else {
					f.edit(func(i *v1alpha1.WindowsInstance) {
						i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
					})
				}
				f.reconcile(r)
				op := f.waitForEnd()
				node := f.node()
				if op.Phase != v1alpha1.OperationCanceled || !strings.HasSuffix(op.Message, " Nothing was changed.") || op.MayHaveChangedHost() ||
					node.Spec.Unschedulable || len(node.Annotations) > 0 || f.host.count("Apply") > 0 {
					t.Errorf("it is %s, changed %v, cordoned %v: %s", op.Phase, op.MayHaveChangedHost(), node.Spec.Unschedulable, op.Message)
				}
			})
		}
	}
}

// TestCostsMoreThanAdmitted: an update that costs more than its pool has allowed it does not wait, so that the host can have another operation
// meanwhile. One that has changed its host goes on, and so does what a person asked for.
func TestCostsMoreThanAdmitted(t *testing.T) {
	t.Parallel()
	update := byController(reconfigureOperation())
	update.AdmittedImpact = v1alpha1.ImpactRestart
	byUser := reconfigureOperation()
	byUser.Origin = v1alpha1.OriginUser
	for _, tt := range []struct {
		name string
		op   v1alpha1.Operation
		edit []change
		want v1alpha1.OperationPhase
	}{
		{name: "an update", op: update, want: v1alpha1.OperationCanceled},
		{name: "a host that is half way", op: update, edit: []change{func(i *v1alpha1.WindowsInstance) { i.Status.Operation.HostChanged = true }}, want: v1alpha1.OperationSucceeded},
		{name: "what a person asked for", op: byUser, want: v1alpha1.OperationSucceeded},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.op, append([]change{inPool("pool")}, tt.edit...)...))
			f.configure()
			f.host.impact = config.ImpactDrain
			op := f.finish()
			if op.Phase != tt.want || op.Withdrawn() != (tt.want == v1alpha1.OperationCanceled) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if tt.want != v1alpha1.OperationCanceled {
				return
			}
			if want := "Not begun, because it costs more than the pool has allowed it (Drain, and not Restart)."; !strings.Contains(op.Message, want) || wasApplied(f) || f.node().Spec.Unschedulable || f.drain.runs > 0 {
				t.Errorf("configured %v, cordoned %v: %s", wasApplied(f), f.node().Spec.Unschedulable, op.Message)
			}
		})
	}
}

// TestHalfWay: a host that an execution before this one has begun to change, or has cordoned,
// does not wait for others, however many are being changed and whoever is broken.
func TestHalfWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// running is the step at which the other process was killed.
		running string
		impact  v1alpha1.ChangeImpact
	}{
		{"services are being restarted", v1alpha1.StepApply, v1alpha1.ImpactRestart},
		{"the Node is being cordoned", v1alpha1.StepCordon, v1alpha1.ImpactDrain},
		{"the host is planned again after a part", v1alpha1.StepPlan, v1alpha1.ImpactRestart},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), takenOverAt(tt.running, tt.impact), func(i *v1alpha1.WindowsInstance) {
				i.Status.Operation.HostChanged = tt.running == v1alpha1.StepPlan
			}), brokenNeighbor())
			f.configure()
			f.host.impact = config.Impact(tt.impact)
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.host.is != "new" {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestPausedWhileItWaits: an operation that waits, or was admitted while no controller ran, and has disturbed nothing yet, ends when somebody
// pauses its instance or its pool. A host that is half way goes on.
func TestPausedWhileItWaits(t *testing.T) {
	t.Parallel()
	update := byController(reconfigureOperation())
	byUser := reconfigureOperation()
	byUser.Origin = v1alpha1.OriginUser
	admitted := update
	admitted.AdmittedImpact, admitted.Impact = v1alpha1.ImpactDrain, v1alpha1.ImpactDrain
	updates := byController(rebootOperation(v1alpha1.RebootGraceful))
	updates.Cause, updates.AdmittedImpact, updates.Reboot.InstallUpdates = v1alpha1.CauseWindowsUpdates, v1alpha1.ImpactReboot, v1alpha1.InstallAll
	costsMore := func(i *v1alpha1.WindowsInstance) {
		takenOverAt(v1alpha1.StepApply, v1alpha1.ImpactRestart)(i)
		op := i.Status.Operation
		op.HostChanged, op.AdmittedImpact = true, v1alpha1.ImpactRestart
		for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain} {
			*op.FindStep(name) = v1alpha1.OperationStep{Name: name, State: v1alpha1.StepSkipped}
		}
	}
	const paused = "because spec.paused of pool pool is true"
	for _, tt := range []struct {
		name string
		op   v1alpha1.Operation
		edit []change
		// instance: it is the instance that is paused. before: that is so before the process starts.
		instance, before bool
		want             v1alpha1.OperationPhase
		message          string
	}{
		{name: "an update", op: update, want: v1alpha1.OperationCanceled, message: paused},
		{name: "the instance", op: update, instance: true, want: v1alpha1.OperationCanceled, message: "because spec.paused is true"},
		{name: "what a person asked for", op: byUser, want: v1alpha1.OperationFailed, message: paused},
		{name: "a removal", op: byController(removeOperation()), edit: []change{configuredBefore, isBeingDeleted}, want: v1alpha1.OperationCanceled, message: paused},
		{name: "one that was admitted", op: admitted, edit: []change{begunAt(v1alpha1.StepWaitForSlot)}, before: true, want: v1alpha1.OperationCanceled, message: paused},
		{name: "updates of Windows that were", op: updates, edit: []change{begunAt(v1alpha1.StepWaitForSlot)}, before: true, want: v1alpha1.OperationSucceeded, message: "are not installed now. Not begun, " + paused},
		{name: "a host that is half way", op: update, edit: []change{costsMore}, want: v1alpha1.OperationSucceeded},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "pool"}}
			other := waitsToBeRemoved()
			f := newFixture(t, newInstance(tt.op, append([]change{inPool("pool")}, tt.edit...)...), pool, other)
			f.configure()
			f.host.agentThere, f.host.impact = true, config.ImpactDrain
			pause := func() {
				if tt.instance {
					i := f.get()
					i.Spec.Paused = true
					if err := f.raw.Update(t.Context(), i); err != nil {
						t.Fatal(err)
					}
					return
				}
				pool.Spec.Paused = true
				if err := f.raw.Update(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
			}
			if tt.before {
				pause()
			}
			r, _ := f.process()
			f.reconcile(r)
			if !tt.before {
				f.eventually("it to wait", func() bool {
					return strings.HasPrefix(f.get().Status.Operation.Message, "Waits for a slot")
				})
				pause()
			}
			if tt.want == v1alpha1.OperationSucceeded && !tt.before {
				if err := f.raw.Delete(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			op := f.waitForEnd()
			if op.Phase != tt.want || !strings.Contains(op.Message, tt.message) || (op.Phase == v1alpha1.OperationCanceled) != op.Withdrawn() {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if tt.message != "" && (f.drain.runs > 0 || f.node().Spec.Unschedulable || f.host.count("Apply")+f.host.count("Cleanup") > 0) {
				t.Errorf("something was done: %v", states(op))
			}
		})
	}
}

// TestHalfWayAndCostsMore: a host that was being changed without a drain when its process was killed, and has to be drained by now, as others
// may have to for the same label, waits for its slot. Policies of its pool, and what an annotation asked for, do not keep it any more.
func TestHalfWayAndCostsMore(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]v1alpha1.OperationCause{"an update": "", "an annotation": v1alpha1.CauseVersionChanged} {
		inBubble(t, name, func(t *testing.T) {
			other := newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
				i.Name, i.UID = "win-2", "uid-2"
				op := i.Status.Operation
				op.Phase, op.Steps = v1alpha1.OperationRunning, newSteps(plan(op, true))
				for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain} {
					op.FindStep(name).State = v1alpha1.StepSucceeded
				}
			})
			f := newFixture(t, newInstance(reconfigureOperation(), askedForBy(v1alpha1.ControllerRequester), takenOverAt(v1alpha1.StepApply, v1alpha1.ImpactRestart), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.HostChanged, op.AdmittedImpact, op.Cause = true, v1alpha1.ImpactRestart, cause
				for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain} {
					*op.FindStep(name) = v1alpha1.OperationStep{Name: name, State: v1alpha1.StepSkipped}
				}
			}), other)
			f.configure()
			f.host.impact, f.host.restarted = config.ImpactRestart, []string{wmco.KubeletService}
			f.selects("rack", "8") // which its Node does not have any more
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("it to wait", func() bool {
				return strings.HasPrefix(f.get().Status.Operation.Message, "Waits for a slot: another host is being changed: win-2;")
			})
			if f.node().Spec.Unschedulable || f.drain.runs > 0 || len(f.host.applies) > 0 {
				t.Error("it does not wait")
			}
			if err := f.raw.Delete(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			if op := f.waitForEnd(); op.Phase != v1alpha1.OperationSucceeded || f.drain.runs != 1 || op.AdmittedImpact != v1alpha1.ImpactDrain {
				t.Errorf("it is %s, %d drains, admitted is %s: %s", op.Phase, f.drain.runs, op.AdmittedImpact, op.Message)
			}
		})
	}
}

// TestDrainThatOthersWaitFor: a drain that never ends, as its pool wants it, ends after an hour when hosts of another
// namespace wait for the slot.
func TestDrainThatOthersWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "gold"}}
		pool.Spec.UpdateStrategy.Drain.TimeoutSeconds = new(int64(0))
		f := newFixture(t, newInstance(reconfigureOperation(), inPool("gold")), pool)
		f.configure()
		f.host.impact = config.ImpactDrain
		f.drain.err = &drain.TimeoutError{Total: 1, Pods: []string{"a/b (PodDisruptionBudget c)"}}
		f.drain.meanwhile = func() {
			for until, asked := f.drain.options.Deadline, 1; time.Now().Before(until); asked++ {
				<-time.After(time.Until(until))
				if asked == 3 {
					f.policy.contested.Store(true)
				}
				until = f.drain.options.Extend()
			}
		}
		began := time.Now()
		op := f.finish()
		if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "Hosts of other pools wait") || !strings.Contains(op.Message, "PodDisruptionBudget c") {
			t.Errorf("it is %s: %s", op.Phase, op.Message)
		}
		// Pods that come back though the Node is cordoned are evicted once for each drain.
		if f.drain.runs != 1 || time.Since(began) < time.Hour+2*contestedInterval {
			t.Errorf("it ended after %s and %d drains", time.Since(began), f.drain.runs)
		}
	})
}
