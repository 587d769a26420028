// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// works is a host that is a Node of ours since long, and was last restarted two days ago.
func works(edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	i := needsUpdate("a")
	i.Status.CurrentRevision = "r2"
	i.Status.System = &v1alpha1.SystemStatus{BootTime: at(-48 * time.Hour)}
	i.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionTrue},
		{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue},
		{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue},
	}
	for _, e := range edit {
		e(i)
	}
	return i
}

func at(d time.Duration) *metav1.Time { return new(metav1.NewTime(testNow.Add(d))) }

func condition(kind string, status metav1.ConditionStatus, reason string, since time.Duration) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		for n := range i.Status.Conditions {
			if c := &i.Status.Conditions[n]; c.Type == kind {
				c.Status, c.Reason, c.LastTransitionTime = status, reason, *at(since)
				return
			}
		}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: *at(since)})
	}
}

// did adds an operation before all others that took a minute and ended so long ago.
func did(kind v1alpha1.OperationType, cause v1alpha1.OperationCause, phase v1alpha1.OperationPhase, ended time.Duration) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		op := v1alpha1.Operation{Type: kind, Cause: cause, Phase: phase, RequestedAt: *at(ended - time.Minute), StartedAt: at(ended - time.Minute), FinishedAt: at(ended), BootID: "b"}
		if cause == v1alpha1.CauseWindowsUpdates {
			op.AdmittedImpact = v1alpha1.ImpactReboot
		}
		if phase == v1alpha1.OperationCanceled {
			op.CancelRequestedAt = at(ended)
		}
		if i.Status.Operation == nil {
			i.Status.Operation = &op
		} else {
			i.Status.History = append(i.Status.History, op)
		}
	}
}

// drainedOtherwise adds a restart that failed in its drain, when the pool gave that a minute.
func drainedOtherwise(cause v1alpha1.OperationCause, ended time.Duration) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		did(v1alpha1.OperationReboot, cause, v1alpha1.OperationFailed, ended)(i)
		all := i.Status.OperationList()
		op := all[len(all)-1]
		op.BootID, op.Drain = "", v1alpha1.PoolDrainOptions{TimeoutSeconds: new(int64(60))}.Recorded()
	}
}

func pending(i *v1alpha1.WindowsInstance) {
	condition(v1alpha1.ConditionRebootRequired, metav1.ConditionTrue, v1alpha1.ReasonRebootPending, -time.Hour)(i)
}

// TestRestartOf: Windows is restarted when somebody asked for it, once, and when it waits for it and the pool allows that.
func TestRestartOf(t *testing.T) {
	const (
		requested = v1alpha1.CauseRestartRequested
		waits     = v1alpha1.CauseRestartPending
		updates   = v1alpha1.CauseWindowsUpdates
		reboot    = v1alpha1.OperationReboot
	)
	updatesWait := func(i *v1alpha1.WindowsInstance) {
		i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: at(-time.Hour), Pending: 1}
	}
	now := v1alpha1.PoolRestarts{After: at(0)}
	whenPending := v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}
	for _, tt := range []struct {
		name    string
		policy  v1alpha1.PoolRestarts
		updates bool // are installed
		edit    []func(*v1alpha1.WindowsInstance)
		want    v1alpha1.OperationCause
		due     time.Duration // from testNow; minus a year: at any time
	}{
		{name: "nobody wants it", edit: []func(*v1alpha1.WindowsInstance){pending}},
		{name: "it does not wait", policy: whenPending},
		{name: "it waits", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending}, want: waits, due: never},
		{name: "it still waits after a restart", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, did(reboot, waits, v1alpha1.OperationSucceeded, -time.Hour)}, want: waits, due: 23 * time.Hour},
		{name: "a restart failed", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, did(reboot, waits, v1alpha1.OperationFailed, -time.Minute)}, want: waits, due: 9 * time.Minute},
		{name: "two did", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, did(reboot, waits, v1alpha1.OperationFailed, -time.Minute), did(reboot, waits, v1alpha1.OperationFailed, -time.Hour)}, want: waits, due: 19 * time.Minute},
		{name: "two did, and the pool drains in another way since", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, drainedOtherwise(waits, -time.Minute), drainedOtherwise(waits, -time.Hour)}, want: waits, due: redrainPause - time.Minute},
		{name: "somebody canceled it", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, did(reboot, waits, v1alpha1.OperationCanceled, -time.Hour)}, want: waits, due: 5 * time.Hour},
		{name: "its end is still to come, by another clock", policy: whenPending, edit: []func(*v1alpha1.WindowsInstance){pending, did(reboot, waits, v1alpha1.OperationFailed, 48*time.Hour)}, want: waits, due: never},

		{name: "somebody asks for it", policy: now, want: requested},
		{name: "for later", policy: v1alpha1.PoolRestarts{After: at(time.Hour)}, want: requested, due: time.Hour},
		{name: "for later, and it waits for one already", policy: v1alpha1.PoolRestarts{After: at(30 * 24 * time.Hour), Policy: v1alpha1.RestartWhenPending}, edit: []func(*v1alpha1.WindowsInstance){pending}, want: waits, due: never},
		{name: "for later, and it waits for one that the pool does not want", policy: v1alpha1.PoolRestarts{After: at(30 * 24 * time.Hour)}, edit: []func(*v1alpha1.WindowsInstance){pending}, want: requested, due: 30 * 24 * time.Hour},
		{name: "now, and it waits for one as well", policy: v1alpha1.PoolRestarts{After: at(0), Policy: v1alpha1.RestartWhenPending}, edit: []func(*v1alpha1.WindowsInstance){pending}, want: requested},
		{name: "for later, and updates wait", policy: v1alpha1.PoolRestarts{After: at(30 * 24 * time.Hour)}, edit: []func(*v1alpha1.WindowsInstance){updatesWait}, updates: true, want: updates, due: never},
		{name: "for later, and updates failed just now", policy: v1alpha1.PoolRestarts{After: at(30 * 24 * time.Hour)}, edit: []func(*v1alpha1.WindowsInstance){updatesWait, did(reboot, updates, v1alpha1.OperationFailed, -time.Minute)}, updates: true, want: updates, due: 59 * time.Minute},
		{name: "for later, before updates are tried again", policy: v1alpha1.PoolRestarts{After: at(30 * time.Minute)}, edit: []func(*v1alpha1.WindowsInstance){updatesWait, did(reboot, updates, v1alpha1.OperationFailed, -time.Minute)}, updates: true, want: requested, due: 30 * time.Minute},
		{name: "it was restarted since, by whomever", policy: v1alpha1.PoolRestarts{After: at(-49 * time.Hour)}},
		{name: "an operation restarted it, whatever the clock of the host says", policy: v1alpha1.PoolRestarts{After: at(-time.Hour)}, edit: []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) { i.Status.RestartedAt = at(-time.Minute) }}},
		{name: "a restart for this failed", policy: v1alpha1.PoolRestarts{After: at(-time.Hour)}, edit: []func(*v1alpha1.WindowsInstance){did(reboot, requested, v1alpha1.OperationFailed, -time.Minute)}, want: requested, due: 9 * time.Minute},
		{name: "one before was for another request", policy: now, edit: []func(*v1alpha1.WindowsInstance){did(reboot, requested, v1alpha1.OperationFailed, -time.Minute)}, want: requested},

		{name: "the pool is paused", policy: now, edit: []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }}},
		{name: "somebody may have released it", policy: now, edit: []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationFailed, ReleaseBegun: true}
		}}},
		{name: "it goes", policy: now, edit: []func(*v1alpha1.WindowsInstance){deleting}},
		{name: "it is no Node", policy: now, edit: []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }}},
		{name: "it is only watched", policy: now, edit: []func(*v1alpha1.WindowsInstance){condition(v1alpha1.ConditionConfigured, metav1.ConditionTrue, v1alpha1.ReasonNotManaged, 0)}},
		{name: "it cannot be logged in to", policy: now, edit: []func(*v1alpha1.WindowsInstance){condition(v1alpha1.ConditionAuthenticated, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, 0)}},
		{name: "something is being done to it", policy: now, edit: []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationRunning}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Restarts: tt.policy}}
			if tt.updates {
				pool.Spec.WindowsUpdates.Install = v1alpha1.InstallAll
			}
			cause, due := restartOf(works(tt.edit...), pool, testNow)
			if cause != tt.want {
				t.Fatalf("got %q, want %q", cause, tt.want)
			}
			if want := testNow.Add(tt.due); cause != "" && tt.due != never && !due.Equal(want) || tt.due == never && due.After(testNow) {
				t.Errorf("due at %s, want %s", due, want)
			}
		})
	}
	if cause, _ := restartOf(works(pending), nil, testNow); cause != "" {
		t.Errorf("a host in no pool: %s", cause)
	}
}

// never stands for a time that was long ago.
const never = -365 * 24 * time.Hour

// TestRemedyOf: each action is tried once, in their order, and all that was tried within an hour is about the same trouble.
func TestRemedyOf(t *testing.T) {
	failedUpdates := func(n int) func(*v1alpha1.WindowsInstance) { // one a minute, the last one a minute ago
		return func(i *v1alpha1.WindowsInstance) {
			for n := range n {
				did(v1alpha1.OperationReconfigure, "", v1alpha1.OperationFailed, -time.Duration(n+1)*time.Minute)(i)
			}
		}
	}
	const (
		services = v1alpha1.OperationRestartServices
		reboot   = v1alpha1.OperationReboot
		cause    = v1alpha1.CauseNodeNotReady
	)
	notRestarted := func(ended time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			did(reboot, cause, v1alpha1.OperationFailed, ended)(i)
			all := i.Status.OperationList()
			all[len(all)-1].BootID = ""
		}
	}
	unreached := func(ended time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			did(services, cause, v1alpha1.OperationFailed, ended)(i)
			all := i.Status.OperationList()
			if op := all[len(all)-1]; op == i.Status.Operation {
				op.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepFailed}, {Name: v1alpha1.StepRestartServices, State: v1alpha1.StepPending}}
			} else {
				op.HostUntouched = true
			}
		}
	}
	down := func(since time.Duration) func(*v1alpha1.WindowsInstance) {
		return condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, since)
	}
	for _, tt := range []struct {
		name   string
		policy *v1alpha1.PoolRemediation
		edit   []func(*v1alpha1.WindowsInstance)
		want   remedy
	}{
		{name: "the Node is ready", policy: &v1alpha1.PoolRemediation{}},
		{name: "nobody wants it", edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour)}},
		{name: "nobody wants any host repaired", policy: &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromInt32(0))}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour)}},
		{name: "nor any part of them", policy: &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromString("0%"))}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour)}},
		{name: "the services first", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Minute)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(9 * time.Minute)}},
		{name: "then Windows", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(services, cause, v1alpha1.OperationFailed, -time.Minute)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(9 * time.Minute)}},
		{name: "then nothing", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -time.Minute), did(services, cause, v1alpha1.OperationFailed, -20*time.Minute)}, want: remedy{tried: true}},
		{name: "Windows could not be restarted", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), notRestarted(-time.Minute), did(services, cause, v1alpha1.OperationFailed, -20*time.Minute)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(9 * time.Minute), neverBegan: true}},
		{name: "twice", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), notRestarted(-time.Minute), notRestarted(-15 * time.Minute), did(services, cause, v1alpha1.OperationFailed, -30*time.Minute)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(19 * time.Minute), neverBegan: true}},
		{name: "twice, and the pool drains in another way since", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), drainedOtherwise(cause, -time.Minute), drainedOtherwise(cause, -15*time.Minute), did(services, cause, v1alpha1.OperationFailed, -30*time.Minute)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(redrainPause - time.Minute), neverBegan: true}},
		{name: "then it was, and did not help", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(reboot, cause, v1alpha1.OperationFailed, -time.Minute), notRestarted(-15 * time.Minute), did(services, cause, v1alpha1.OperationFailed, -30*time.Minute)}, want: remedy{tried: true}},
		{name: "it could not be so often that the services left the history", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-50 * time.Hour), func(i *v1alpha1.WindowsInstance) {
			for n := range v1alpha1.MaxHistory + 1 {
				notRestarted(-time.Duration(n+1) * time.Hour)(i)
			}
		}}, want: remedy{forgotten: true}},
		{name: "the host could not be reached", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), unreached(-time.Minute)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(9 * time.Minute), neverBegan: true}},
		{name: "twice, and there is nothing else to try", policy: &v1alpha1.PoolRemediation{Actions: []v1alpha1.PoolRemediationAction{v1alpha1.RemediateRestartServices}}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), unreached(-time.Minute), unreached(-15 * time.Minute)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(19 * time.Minute), neverBegan: true}},
		{name: "then it was, and the services were restarted", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(services, cause, v1alpha1.OperationFailed, -time.Minute), unreached(-15 * time.Minute)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(9 * time.Minute)}},
		{name: "it was ready for some minutes in between", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -70*time.Minute), did(services, cause, v1alpha1.OperationFailed, -100*time.Minute)}, want: remedy{tried: true}},
		{name: "it was ready for hours in between", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -3*time.Hour), did(services, cause, v1alpha1.OperationFailed, -4*time.Hour)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(-50 * time.Minute)}},
		{name: "it was never ready, and the restart had to wait for hours", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-5 * time.Hour), did(reboot, cause, v1alpha1.OperationSucceeded, -10*time.Minute), did(services, cause, v1alpha1.OperationFailed, -4*time.Hour)}, want: remedy{tried: true}},
		{name: "Windows only", policy: &v1alpha1.PoolRemediation{AfterSeconds: new(int64(60)), Actions: []v1alpha1.PoolRemediationAction{v1alpha1.RemediateRestart}}, edit: []func(*v1alpha1.WindowsInstance){down(0)}, want: remedy{action: v1alpha1.RemediateRestart, due: testNow.Add(time.Minute)}},
		{name: "what people did does not count", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), did(reboot, "", v1alpha1.OperationSucceeded, -time.Minute)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(-50 * time.Minute)}},
		{name: "what was tried left the history", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), failedUpdates(v1alpha1.MaxHistory + 1)}, want: remedy{forgotten: true}},
		{name: "some of what was tried left the history", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), failedUpdates(v1alpha1.MaxHistory - 1), did(reboot, cause, v1alpha1.OperationFailed, -30*time.Minute), did(v1alpha1.OperationReconfigure, "", v1alpha1.OperationFailed, -40*time.Minute)}, want: remedy{forgotten: true}},
		{name: "it left the history before the configuration that succeeded last", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), failedUpdates(v1alpha1.MaxHistory), did(v1alpha1.OperationReconfigure, "", v1alpha1.OperationSucceeded, -2*time.Hour)}, want: remedy{forgotten: true}},
		{name: "the history reaches back to the trouble", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-5 * time.Minute), failedUpdates(v1alpha1.MaxHistory + 1)}, want: remedy{action: v1alpha1.RemediateRestartServices, due: testNow.Add(5 * time.Minute)}},
		{name: "it has no Node", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNoNode, -time.Hour)}},
		{name: "it cannot be logged in to", policy: &v1alpha1.PoolRemediation{}, edit: []func(*v1alpha1.WindowsInstance){down(-time.Hour), condition(v1alpha1.ConditionAuthenticated, metav1.ConditionUnknown, v1alpha1.ReasonNotTried, 0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Remediation: tt.policy}}
			if got := remedyOf(works(tt.edit...), pool); got.action != tt.want.action || got.tried != tt.want.tried || got.forgotten != tt.want.forgotten || got.neverBegan != tt.want.neverBegan || !got.due.Equal(tt.want.due) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRestartWithItsUpdate: a host that somebody wants restarted gets its update first, also in a pool that updates hosts on request only. It
// is restarted without it where nobody knows when the update comes.
func TestRestartWithItsUpdate(t *testing.T) {
	const drains, asked = v1alpha1.ImpactDrain, v1alpha1.CauseRestartRequested
	cannotSay := func(since time.Duration) func(*host) {
		return func(h *host) {
			h.impact, h.unknown, h.askAgain, h.failing, h.failingSince = "", "it is off.", testNow.Add(time.Minute), "it is off.", testNow.Add(-since)
		}
	}
	for _, tt := range []struct {
		name   string
		impact v1alpha1.ChangeImpact
		edit   func(*host)
		canary *intstr.IntOrString
		beside []host
		// starts says whether something is begun on the host, and with what cause. waits is what it waits for otherwise.
		starts bool
		cause  v1alpha1.OperationCause
		waits  string
	}{
		{name: "it is updated", impact: drains, starts: true},
		{name: "it is updated at no cost", impact: v1alpha1.ImpactNone, starts: true},
		{name: "it is up to date", edit: isUpToDate, starts: true, cause: asked},
		{name: "it was not asked yet", waits: "The host is asked what its update costs."},
		{name: "it could not say it a moment ago", edit: cannotSay(time.Minute), waits: "What the update costs is not known: it is off."},
		{name: "and is asked again", edit: func(h *host) {
			cannotSay(time.Minute)(h)
			h.unknown = ""
		}, waits: "What the update costs is not known: it is off."},
		{name: "it has not been able to say it for long", edit: cannotSay(planPatience), starts: true, cause: asked},
		{name: "another one is updated first", impact: v1alpha1.ImpactRestart, beside: []host{outdated("b", "", changing(slotServiceRestart))}, waits: "one host of pool p is updated first: b."},
		{name: "the update is tried again soon", impact: drains, edit: func(h *host) { h.due = testNow.Add(retriedSoon) }, waits: "The update is tried again at"},
		{name: "and not soon", impact: drains, edit: func(h *host) { h.due = testNow.Add(retriedSoon + time.Second) }, starts: true, cause: asked},
		{name: "the canaries are updated", impact: drains, canary: new(intstr.FromInt32(1)), beside: []host{outdated("b", "", isUpToDate)}, starts: true, cause: asked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.Type, s.RollingUpdate.Canary = v1alpha1.OnRequest, tt.canary })
			h := outdated("a", tt.impact, func(h *host) { h.restart = asked })
			if tt.edit != nil {
				tt.edit(&h)
			}
			hosts := append([]host{h}, tt.beside...)
			d := decide(state{hosts: hosts, pools: map[poolKey]policy{h.pool: policyOf(pool, len(hosts))}, disruptions: 1, now: testNow})
			if starts := len(d.start) == 1 && d.start[0].cause == tt.cause; starts != tt.starts || len(d.start) > 1 {
				t.Errorf("started are %+v", d.start)
			}
			if got := d.waits[h.key].describe(h.pool); !strings.Contains(got, tt.waits) || !tt.starts && got == "" {
				t.Errorf("it waits for %q, want %q", got, tt.waits)
			}
		})
	}
}
