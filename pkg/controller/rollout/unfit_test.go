// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUnfit: what keeps a host from what its pool wants is said, unless it goes on by itself.
func TestUnfit(t *testing.T) {
	outdated := func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r3" }
	isNew := func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision, i.Status.Node = "", nil }
	isPaused := func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }
	unreachable := condition(v1alpha1.ConditionReachable, metav1.ConditionFalse, v1alpha1.ReasonConnectionTimedOut, -time.Minute)
	refused := condition(v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, -time.Minute)
	duplicate := condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost, 0)
	ofOthers := func(reason string) func(*v1alpha1.WindowsInstance) {
		return condition(v1alpha1.ConditionConfigured, metav1.ConditionUnknown, reason, 0)
	}
	runs := func(op v1alpha1.Operation, step string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			op.Phase, op.RequestedAt = v1alpha1.OperationRunning, *at(-time.Hour)
			op.Steps = []v1alpha1.OperationStep{{Name: step, State: v1alpha1.StepRunning, StartedAt: at(-time.Minute)}}
			i.Status.Operation = &op
		}
	}
	drained := runs(v1alpha1.Operation{Type: v1alpha1.OperationDrain}, v1alpha1.StepEvict)
	restarts := v1alpha1.PoolRestarts{After: at(-time.Minute)}
	for _, tt := range []struct {
		name string
		spec v1alpha1.WindowsNodePoolSpec
		edit []func(*v1alpha1.WindowsInstance)
		kind waitKind
		from time.Duration
	}{
		{name: "nothing is wanted of it", edit: []func(*v1alpha1.WindowsInstance){unreachable}},
		{name: "it is paused", edit: []func(*v1alpha1.WindowsInstance){outdated, isPaused}, kind: waitsForUnpause},
		{name: "so is its pool", spec: v1alpha1.WindowsNodePoolSpec{Paused: true}, edit: []func(*v1alpha1.WindowsInstance){outdated, isPaused}},
		{name: "it is paused and up to date", edit: []func(*v1alpha1.WindowsInstance){isPaused}},
		{name: "it is paused and to be restarted", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){isPaused}, kind: waitsForUnpause},
		{name: "on a day to come", spec: v1alpha1.WindowsNodePoolSpec{Restarts: v1alpha1.PoolRestarts{After: at(time.Hour)}}, edit: []func(*v1alpha1.WindowsInstance){isPaused}},
		{name: "it was restarted", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){isPaused, func(i *v1alpha1.WindowsInstance) { i.Status.RestartedAt = at(0) }}},
		{name: "what it is to have cannot be worked out", edit: []func(*v1alpha1.WindowsInstance){undetermined}, kind: waitsForInputs, from: awayPatience - time.Minute},
		{name: "somebody drains it", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable, drained}, kind: waitsForOperation, from: personPatience - time.Minute},
		{name: "somebody drains it, and it is to be restarted", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){drained}, kind: waitsForOperation, from: personPatience - time.Minute},
		{name: "somebody drains it, and it is paused", edit: []func(*v1alpha1.WindowsInstance){outdated, isPaused, drained}, kind: waitsForUnpause},
		{name: "somebody drains it, and nothing is wanted of it", edit: []func(*v1alpha1.WindowsInstance){drained}},
		{name: "somebody drains and reboots it", edit: []func(*v1alpha1.WindowsInstance){outdated, runs(v1alpha1.Operation{Type: v1alpha1.OperationReboot}, v1alpha1.StepDrain)}, kind: waitsForOperation, from: personPatience - time.Minute},
		{name: "somebody installs updates of Windows", edit: []func(*v1alpha1.WindowsInstance){outdated, runs(v1alpha1.Operation{Type: v1alpha1.OperationReboot}, v1alpha1.StepInstallUpdates)}},
		{name: "somebody has it configured", edit: []func(*v1alpha1.WindowsInstance){outdated, runs(v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}, v1alpha1.StepDrain)}},
		{name: "the controller restarts it", edit: []func(*v1alpha1.WindowsInstance){outdated, runs(v1alpha1.Operation{Type: v1alpha1.OperationReboot, Origin: v1alpha1.OriginController}, v1alpha1.StepDrain)}},
		{name: "it is off", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable}, kind: waitsForLogin, from: awayPatience - time.Minute},
		{name: "it did not come back from its restart", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){unreachable}, kind: waitsForLogin, from: awayPatience - time.Minute},
		{name: "it refuses its key", edit: []func(*v1alpha1.WindowsInstance){outdated, refused}, kind: waitsForLogin, from: awayPatience - time.Minute},
		{name: "it is new and booting", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew, unreachable}, kind: waitsForLogin, from: joinPatience - time.Minute},
		{name: "it is new and answers", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew}},
		{name: "it is new and could not be configured", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew, func(i *v1alpha1.WindowsInstance) { i.Status.Phase = v1alpha1.InstanceFailed }}, kind: waitsForFitness},
		{name: "its configuration has failed", edit: []func(*v1alpha1.WindowsInstance){outdated, condition(v1alpha1.ConditionConfigured, metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed, 0)}, kind: waitsForFitness},
		{name: "it could not be looked at once", edit: []func(*v1alpha1.WindowsInstance){outdated, condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionUnknown, v1alpha1.ReasonAgentFailed, -time.Minute)}, kind: waitsForFitness, from: awayPatience - time.Minute},
		{name: "it is not fit", edit: []func(*v1alpha1.WindowsInstance){outdated, condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, v1alpha1.ReasonPreflightPassed, -time.Minute)}, kind: waitsForFitness},
		{name: "it is paused and waits for a confirmation", edit: []func(*v1alpha1.WindowsInstance){outdated, isPaused, func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = at(-time.Minute) }}, kind: waitsForUnpause},
		{name: "another instance has its host", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew, duplicate}, kind: waitsForDuplicate},
		{name: "also if it was configured", edit: []func(*v1alpha1.WindowsInstance){outdated, duplicate}, kind: waitsForDuplicate},
		{name: "another instance has its host, and nothing is wanted of it", edit: []func(*v1alpha1.WindowsInstance){duplicate}},
		{name: "WMCO manages it", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew, unreachable, ofOthers(v1alpha1.ReasonManagedByWMCO)}, kind: waitsForTakeover},
		{name: "others made it a node, and it is paused", edit: []func(*v1alpha1.WindowsInstance){outdated, isNew, isPaused, ofOthers(v1alpha1.ReasonForeignNode)}, kind: waitsForTakeover},
		{name: "others are to be restarted", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){ofOthers(v1alpha1.ReasonForeignNode)}, kind: waitsForTakeover},
		{name: "somebody may have released it", edit: []func(*v1alpha1.WindowsInstance){outdated, func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true}
		}}, kind: waitsForTakeover},
		{name: "hosts are only watched", edit: []func(*v1alpha1.WindowsInstance){outdated, ofOthers(v1alpha1.ReasonNotManaged)}},
		{name: "and to be restarted", spec: v1alpha1.WindowsNodePoolSpec{Restarts: restarts}, edit: []func(*v1alpha1.WindowsInstance){ofOthers(v1alpha1.ReasonNotManaged)}, kind: waitsForPayload},
		{name: "and off", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable, ofOthers(v1alpha1.ReasonNotManaged)}, kind: waitsForLogin, from: awayPatience - time.Minute},
		{name: "something is being done to it", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable, did(v1alpha1.OperationReboot, "", v1alpha1.OperationRunning, 0)}},
		{name: "it goes", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable, deleting}},
		{name: "its spec was changed just now", edit: []func(*v1alpha1.WindowsInstance){outdated, unreachable, func(i *v1alpha1.WindowsInstance) { i.Generation = 2 }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind, from := unfit(works(tt.edit...), &v1alpha1.WindowsNodePool{Spec: tt.spec}, testNow)
			want := time.Time{}
			if tt.from > 0 {
				want = testNow.Add(tt.from)
			}
			if kind != tt.kind || !from.Equal(want) {
				t.Errorf("%q from %s on, want %q from %s on", kind, from, tt.kind, want)
			}
		})
	}
}

// TestScheduleUnfit: the pool names hosts that nothing can be begun on, and does not say that it goes on.
func TestScheduleUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		named := func(name string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
			return edited(works(edit...), func(i *v1alpha1.WindowsInstance) {
				i.Name, i.Status.Node = name, &v1alpha1.NodeReference{Name: name}
			})
		}
		outdated := func(i *v1alpha1.WindowsInstance) {
			i.Status.DesiredRevision, i.Status.Conditions[0].Status, i.Status.Conditions[0].LastTransitionTime = "r3", metav1.ConditionFalse, *at(-time.Minute)
		}
		booting := named("b", outdated, func(i *v1alpha1.WindowsInstance) {
			i.Status.CurrentRevision, i.Status.Node = "", nil
		})
		f := newScheduled(t, nil, pool, named("a", outdated), booting, named("c"))
		f.options.Update = func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, time.Time) (time.Time, bool) {
			return time.Time{}, false
		}
		now := clocktesting.NewFakePassiveClock(testNow)
		f.clock = now
		f.pass()
		if got := f.blockedBy(poolKey{"ns", "p"}); got.text != "" { // a moment later it may answer again
			t.Errorf("got %+v", got)
		}
		now.SetTime(testNow.Add(awayPatience))
		f.pass()
		const text = "It cannot be logged in to, so that it is neither updated nor restarted. Find out why: kubectl windows check NAME -n ns"
		if got := f.blockedBy(poolKey{"ns", "p"}); got.text != "a: "+text || got.moves || !got.stays {
			t.Errorf("got %+v", got)
		}
		now.SetTime(testNow.Add(joinPatience))
		f.pass()
		if got := f.blockedBy(poolKey{"ns", "p"}); got.text != "a, b: "+text {
			t.Errorf("got %+v", got)
		}
	})
}

// TestScheduleBehindADrain: a drain that somebody has asked for may wait for a budget for days. The pool says then what its update waits for.
func TestScheduleBehindADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		f := newScheduled(t, nil, pool, edited(works(), func(i *v1alpha1.WindowsInstance) {
			i.Name, i.Status.Node, i.Status.DesiredRevision = "a", &v1alpha1.NodeReference{Name: "a"}, "r3"
			i.Status.Operation = &v1alpha1.Operation{
				Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationRunning, RequestedBy: "alice", RequestedAt: *at(0),
				Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepEvict, State: v1alpha1.StepRunning, StartedAt: at(0)}},
			}
		}))
		f.options.Update = func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, time.Time) (time.Time, bool) {
			return time.Time{}, false
		}
		now := clocktesting.NewFakePassiveClock(testNow)
		f.clock = now
		f.pass()
		if got := f.blockedBy(poolKey{"ns", "p"}); got.text != "" { // it may be over in a minute
			t.Errorf("got %+v", got)
		}
		now.SetTime(testNow.Add(personPatience))
		f.pass()
		if got := f.blockedBy(poolKey{"ns", "p"}); !strings.HasPrefix(got.text, "a: Somebody has asked for a drain or a reboot, whose pods have been leaving for a long time") || !strings.HasSuffix(got.text, "kubectl windows cancel NAME -n ns") || got.moves || !got.stays {
			t.Errorf("got %+v", got)
		}
	})
}

// TestScheduleNeverUpdated: the pool names hosts that nothing is ever done to, and what to do. Whoever follows it would wait without an end.
func TestScheduleNeverUpdated(t *testing.T) {
	isNew := func(i *v1alpha1.WindowsInstance) {
		i.Status.CurrentRevision, i.Status.Node, i.Status.Phase = "", nil, v1alpha1.InstanceConnecting
	}
	for _, tt := range []struct {
		name string
		host *v1alpha1.WindowsInstance
		want string
	}{
		{"two entries for one host", works(isNew, condition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHost, 0)), "Remove one of the two, or correct its address. Find out which: kubectl windows describe NAME -n ns"},
		{"WMCO runs beside", works(isNew, condition(v1alpha1.ConditionConfigured, metav1.ConditionUnknown, v1alpha1.ReasonManagedByWMCO, 0)), "how to take it over: kubectl windows describe NAME -n ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				f := newScheduled(t, nil, pool, tt.host)
				f.options.Update = func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, time.Time) (time.Time, bool) {
					return time.Time{}, false
				}
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				f.pass()
				got := f.blockedBy(poolKey{"ns", "p"})
				if !strings.HasPrefix(got.text, "a: ") || !strings.HasSuffix(got.text, tt.want) || got.moves || !got.stays {
					t.Errorf("got %+v", got)
				}
				status := computeStatus(pool, []*v1alpha1.WindowsInstance{tt.host}, got, nil, nil, testNow)
				if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpdating); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonUpdateBlocked {
					t.Errorf("got %+v", c)
				}
			})
		})
	}
}

// TestIdle: a pool goes on as long as something is done to those that its hosts wait for.
func TestIdle(t *testing.T) {
	isCordoned := func(h *host) { h.cordoned = true }
	isActive := func(h *host) { h.active = true }
	isRetried := func(h *host) { h.retried = true }
	goneFor := func(d time.Duration) func(*host) { return func(h *host) { h.downSince = testNow.Add(-d) } }
	for _, tt := range []struct {
		name         string
		pool         *v1alpha1.WindowsNodePool
		hosts        []host
		moves, stays bool
		want         string
	}{
		{name: "somebody has cordoned a Node", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isCordoned)}, stays: true, want: "a: Waits for a slot: b of pool p is out of service (its Node is cordoned); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable). To have it take pods again: kubectl windows uncordon b -n ns"},
		{name: "one is down, another one cordoned", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isCordoned), outdated("c", "", isUpToDate, isDown)}, stays: true, want: "maxUnavailable). Find out why: kubectl windows describe c -n ns. To have it take pods again: kubectl windows uncordon b -n ns"},
		{name: "the controller has", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isCordoned, isActive)}, moves: true, want: "b of pool p is out of service"},
		{name: "and is to uncordon it", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isCordoned, func(h *host) { h.uncordon, h.uncordonDue = true, testNow.Add(time.Minute) })}, moves: true, stays: true, want: "b of pool p is out of service"},
		{name: "one is updated now", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", v1alpha1.ImpactDrain)}, moves: true, want: "a of pool p is out of service"},
		{name: "a Node is to be repaired", pool: remediation("40%"), hosts: []host{toRestart("a"), sick("b", v1alpha1.RemediateRestart, func(h *host) { h.remedy.due = testNow.Add(time.Minute) })}, stays: true, want: "opens at"},
		{name: "a removal waits", hosts: []host{toRemove("a", isActive), outdated("b", "", isUpToDate, isCordoned)}, want: "b of pool p is out of service"},
		{name: "an update broke one, and nothing is tried on it", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown)}, stays: true, want: "a: An update or a restart broke it, and its Node is not ready or cordoned since. Find out why: kubectl windows describe NAME -n ns"},
		{name: "it went down a moment ago", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, goneFor(time.Minute))}},
		{name: "and longer ago", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, goneFor(awayPatience))}, stays: true, want: "a: An update or a restart broke it"},
		{name: "another one waits for it", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, goneFor(time.Minute)), outdated("b", v1alpha1.ImpactDrain)}, moves: true, want: "b: Operation op-1 changed host a"},
		{name: "and one broke before", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, goneFor(time.Minute)), outdated("b", v1alpha1.ImpactDrain), outdated("c", "", isUpToDate, breaks, isDown)}, stays: true, want: "b: Updates broke 2 hosts"},
		{name: "a Node went down by itself a moment ago", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isDown, goneFor(time.Minute))}, moves: true, want: "b of pool p is out of service (its Node is not ready)"},
		{name: "and longer ago by itself", hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("b", "", isUpToDate, isDown, goneFor(awayPatience))}, stays: true, want: "b of pool p is out of service (its Node is not ready)"},
		{name: "something is", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, isActive)}},
		{name: "it is tried again by itself", hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, isRetried)}},
		{name: "others wait for that", pool: strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.MaxFailures = new(int32(1)) }), hosts: []host{outdated("a", "", isUpToDate, breaks, isDown, isRetried), outdated("b", v1alpha1.ImpactDrain)}, moves: true, want: "b: Waits for a slot: a of pool p is out of service"},
		{name: "a new one is", hosts: []host{outdated("a", "", isUpToDate, func(h *host) { h.node, h.unfit, h.retried = false, waitsForFitness, true })}},
		{name: "something is to be", hosts: []host{outdated("a", v1alpha1.ImpactDrain, breaks, isDown)}},
		{name: "it cannot be", hosts: []host{outdated("a", "", isUpToDate, func(h *host) { h.unfit = waitsForUnpause })}, stays: true, want: `a: spec.paused of the instance is true. To have it updated and restarted as its pool says: kubectl patch wi NAME -n ns --type=merge -p '{"spec":{"paused":false}}'`},
		{name: "it can be updated", hosts: []host{outdated("a", v1alpha1.ImpactDrain, func(h *host) { h.unfit = waitsForFitness })}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state{hosts: tt.hosts, pools: map[poolKey]policy{}, disruptions: 1, now: testNow}
			if tt.pool != nil {
				s.pools[poolKey{"ns", "p"}] = policyOf(tt.pool, len(tt.hosts))
			}
			got := decide(s)
			for _, h := range tt.hosts {
				if until := h.downSince.Add(awayPatience); until.After(testNow) && !got.again.Equal(until) {
					t.Errorf("decided again at %s, and not at %s", got.again, until)
				}
			}
			held := sumUp(got.waits)
			if text := describeWaits(poolKey{"ns", "p"}, got.waits); held.moves != tt.moves || held.stays != tt.stays || !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
				t.Errorf("got %+v: %s", held, text)
			}
		})
	}
}
