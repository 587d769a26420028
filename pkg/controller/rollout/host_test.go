// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestNewHost: what decides is in the record of the operation, also of one that another process, or another
// release, had begun.
func TestNewHost(t *testing.T) {
	const (
		none    = v1alpha1.ImpactNone
		restart = v1alpha1.ImpactRestart
		drains  = v1alpha1.ImpactDrain
		reboot  = v1alpha1.ImpactReboot
	)
	state := func(step string, s v1alpha1.OperationStepState) func(*v1alpha1.Operation) {
		return func(o *v1alpha1.Operation) { o.FindStep(step).State = s }
	}
	pending := func(o *v1alpha1.Operation) {
		o.Phase, o.Impact, o.Steps, o.Node = v1alpha1.OperationPending, "", nil, nil
	}
	waits := state(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)
	older := func(edit func(*v1alpha1.Operation)) func(*v1alpha1.Operation) {
		return func(o *v1alpha1.Operation) { o.Steps = o.Steps[1:]; edit(o) }
	}
	for _, tt := range []struct {
		name             string
		impact, admitted v1alpha1.ChangeImpact
		edit             func(*v1alpha1.Operation)
		holds            slot
		waits            v1alpha1.ChangeImpact
	}{
		{"services are restarted", restart, restart, nil, slotServiceRestart, ""},
		{"it is drained", drains, drains, nil, slotDisruption, ""},
		{"it is restarted", reboot, drains, nil, slotDisruption, ""},
		{"it has not begun", "", drains, pending, slotDisruption, ""},
		{"it has not begun, and will cost nothing", "", none, pending, slotNone, ""},
		{"it costs less than it may", restart, drains, nil, slotServiceRestart, ""},
		{"it costs more than it may", drains, restart, waits, slotServiceRestart, drains},
		{"it waits", restart, "", waits, slotNone, restart},
		{"it waits for what was admitted", drains, reboot, waits, slotDisruption, ""},
		{"it may not wait yet", drains, "", state(v1alpha1.StepWaitForSlot, v1alpha1.StepPending), slotNone, ""},
		{"a person asked for it", restart, "", func(o *v1alpha1.Operation) { o.Origin = v1alpha1.OriginUser }, slotNone, ""},
		{"it is no node", restart, restart, func(o *v1alpha1.Operation) { o.Node = nil }, slotNone, ""},
		{"it joins again", restart, restart, func(o *v1alpha1.Operation) {
			o.JoinsAgain = true
			state(v1alpha1.StepWaitForSlot, v1alpha1.StepSkipped)(o)
		}, slotNone, ""},
		{"it is uncordoned", drains, drains, func(o *v1alpha1.Operation) {
			state(v1alpha1.StepUncordon, v1alpha1.StepSucceeded)(o)
		}, slotNone, ""},
		{"it has ended", restart, restart, func(o *v1alpha1.Operation) { o.Phase = v1alpha1.OperationSucceeded }, slotNone, ""},
		{"an earlier release has cordoned it", drains, "", older(state(v1alpha1.StepCordon, v1alpha1.StepSucceeded)), slotDisruption, ""},
		{"an earlier release waits to cordon it", drains, "", older(state(v1alpha1.StepCordon, v1alpha1.StepRunning)), slotNone, drains},
		{"an earlier release waits to restart services", restart, "", older(func(o *v1alpha1.Operation) {
			state(v1alpha1.StepApply, v1alpha1.StepRunning)(o)
			o.FindStep(v1alpha1.StepApply).StartedAt = new(metav1.Now())
		}), slotNone, restart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(newInstance(reconfigureOperation(), func(i *v1alpha1.WindowsInstance) {
				op := i.Status.Operation
				op.Origin, op.Phase, op.Impact, op.AdmittedImpact = v1alpha1.OriginController, v1alpha1.OperationRunning, tt.impact, tt.admitted
				op.Steps, op.Node = newSteps(), &v1alpha1.OperationNode{Name: "win-1"}
				op.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepSucceeded
				if tt.edit != nil {
					tt.edit(op)
				}
			}))
			if h.holds != tt.holds || h.waits != tt.waits {
				t.Errorf("it holds %d and waits for %q, want %d and %q", h.holds, h.waits, tt.holds, tt.waits)
			}
		})
	}
}

// TestNewHostToRemove: a host is out of service from when its removal may begin, and has a slot if it waited for one.
func TestNewHostToRemove(t *testing.T) {
	step := func(name string, s v1alpha1.OperationStepState) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			op := i.Status.Operation
			op.Phase, op.StartedAt = v1alpha1.OperationRunning, new(metav1.Now())
			for _, known := range []string{v1alpha1.StepConnect, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon} {
				state := v1alpha1.StepPending
				if name == known {
					state = s
				}
				op.Steps = append(op.Steps, v1alpha1.OperationStep{Name: known, State: state})
			}
		}
	}
	admitted := func(impact v1alpha1.ChangeImpact) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)(i)
			i.Status.Operation.AdmittedImpact = impact
		}
	}
	for _, tt := range []struct {
		name        string
		edit        func(*v1alpha1.WindowsInstance)
		holds       slot
		waits       v1alpha1.ChangeImpact
		unavailable bool
	}{
		{"it has not begun", nil, slotNone, "", false},
		{"it connects", step(v1alpha1.StepConnect, v1alpha1.StepRunning), slotNone, "", false},
		{"it waits", step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning), slotNone, v1alpha1.ImpactDrain, false},
		{"it waits, and was uncordoned after it had begun before", func(i *v1alpha1.WindowsInstance) {
			step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)(i)
			i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationFailed, StartedAt: new(metav1.Now())}}
		}, slotNone, v1alpha1.ImpactDrain, false},
		{"it goes on, and has begun before", func(i *v1alpha1.WindowsInstance) {
			step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)(i)
			i.Status.Operation.Node.WasUnschedulable = true
			i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationFailed, StartedAt: new(metav1.Now())}}
		}, slotNone, "", false},
		{"it waits, and is no Node", func(i *v1alpha1.WindowsInstance) {
			step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning)(i)
			i.Status.Operation.Node = nil
		}, slotNone, "", false},
		{"it may begin", admitted(v1alpha1.ImpactDrain), slotDisruption, "", true},
		{"it is confirmed", admitted(v1alpha1.ImpactNone), slotNone, "", true},
		{"an earlier release has begun", step(v1alpha1.StepCordon, v1alpha1.StepRunning), slotNone, "", true},
		{"it has failed", func(i *v1alpha1.WindowsInstance) {
			admitted(v1alpha1.ImpactDrain)(i)
			i.Status.Operation.Phase = v1alpha1.OperationFailed
		}, slotNone, "", false},
		{"its Node is gone", func(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }, slotNone, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := works()
			i.DeletionTimestamp, i.Status.History = new(metav1.Now()), nil
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationPending, Node: &v1alpha1.OperationNode{Name: "win-1"}}
			if tt.edit != nil {
				tt.edit(i)
			}
			if h := newHost(i); h.holds != tt.holds || h.waits != tt.waits || h.unavailable() != tt.unavailable {
				t.Errorf("it holds %d, waits for %q, unavailable %v, want %d, %q and %v", h.holds, h.waits, h.unavailable(), tt.holds, tt.waits, tt.unavailable)
			}
		})
	}
}

// TestLost: a host without a Node is out of service if it was one. One that could not join yet keeps no other from its turn.
func TestLost(t *testing.T) {
	operation := func(node *v1alpha1.OperationNode) v1alpha1.Operation {
		return v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, Node: node}
	}
	failed := func(times int) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = new(operation(nil))
			for range times - 1 {
				i.Status.History = append(i.Status.History, operation(nil))
			}
		}
	}
	for _, tt := range []struct {
		name string
		edit []func(*v1alpha1.WindowsInstance)
		want bool
	}{
		{"it is configured, and nothing is known of it", nil, true},
		{"its first configuration runs", []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning}
		}}, false},
		{"it could not join", []func(*v1alpha1.WindowsInstance){failed(1)}, false},
		{"again and again", []func(*v1alpha1.WindowsInstance){failed(v1alpha1.MaxHistory + 1)}, false},
		{"and it is in no pool, which would know what it worked with", []func(*v1alpha1.WindowsInstance){failed(v1alpha1.MaxHistory + 1), func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = nil }}, true},
		{"it has worked", []func(*v1alpha1.WindowsInstance){failed(1), func(i *v1alpha1.WindowsInstance) { i.Status.PoolRevision = "p-1" }}, true},
		{"it was a Node before", []func(*v1alpha1.WindowsInstance){failed(1), func(i *v1alpha1.WindowsInstance) {
			i.Status.History = append(i.Status.History, operation(&v1alpha1.OperationNode{Name: "a"}))
		}}, true},
		{"it is removed", []func(*v1alpha1.WindowsInstance){deleting}, false},
		{"it was not configured", []func(*v1alpha1.WindowsInstance){func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "" }}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := ready("a")
			for _, edit := range tt.edit {
				edit(i)
			}
			if h := newHost(i); h.lost != tt.want || h.unavailable() != tt.want {
				t.Errorf("lost %t, unavailable %t", h.lost, h.unavailable())
			}
		})
	}
}

// TestUpdated: a host that was just given its desired configuration has it before it says so.
func TestUpdated(t *testing.T) {
	for _, tt := range []struct {
		current, revision string
		phase             v1alpha1.OperationPhase
		want              bool
	}{
		{"r2", "", "", true},
		{"r1", "", "", false},
		{"r1", "r2", v1alpha1.OperationSucceeded, true},
		{"r1", "r2", v1alpha1.OperationFailed, false},
		{"r1", "r1", v1alpha1.OperationSucceeded, false},
	} {
		i := needsUpdate("a")
		i.Status.CurrentRevision = tt.current
		if tt.revision != "" {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: tt.phase, Revision: tt.revision}
		}
		if h := newHost(i); h.updated != tt.want {
			t.Errorf("%+v: updated %v", tt, h.updated)
		}
	}
}

// TestDisrupted: a Node is out of service from when it is cordoned until it is uncordoned.
func TestDisrupted(t *testing.T) {
	const (
		pending   = v1alpha1.StepPending
		running   = v1alpha1.StepRunning
		succeeded = v1alpha1.StepSucceeded
		skipped   = v1alpha1.StepSkipped
	)
	tests := []struct {
		name                    string
		cordon, drain, uncordon v1alpha1.OperationStepState
		phase                   v1alpha1.OperationPhase
		want                    bool
	}{
		{"before", pending, pending, pending, v1alpha1.OperationRunning, false},
		{"it waits for its turn", running, pending, pending, v1alpha1.OperationRunning, false},
		{"cordoned", succeeded, pending, pending, v1alpha1.OperationRunning, true},
		{"cordoned by people", skipped, running, pending, v1alpha1.OperationRunning, true},
		{"drained", succeeded, succeeded, running, v1alpha1.OperationRunning, true},
		{"not needed", skipped, skipped, pending, v1alpha1.OperationRunning, false},
		{"uncordoned", succeeded, succeeded, succeeded, v1alpha1.OperationRunning, false},
		{"over", succeeded, succeeded, pending, v1alpha1.OperationFailed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			op := reconfigureOperation()
			op.Phase, op.Steps = tt.phase, newSteps()
			op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepDrain).State, op.FindStep(v1alpha1.StepUncordon).State = tt.cordon, tt.drain, tt.uncordon
			if got := disrupted(&op); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			steps := op.Steps
			for n := range steps { // as of a release with other steps, or where hosts are only watched
				if op.Steps = steps[n+1:]; op.FindStep(v1alpha1.StepCordon) == nil && disrupted(&op) {
					t.Errorf("it counts with %v", op.Steps)
				}
			}
			op.Type, op.Steps = v1alpha1.OperationReboot, steps
			if disrupted(&op) {
				t.Error("a reboot that somebody asked for counts")
			}
		})
	}
}

// TestTurn: it is another namespace's turn when a host is given back, and not since its operation began, which may have waited for
// downloads or for its slot.
func TestTurn(t *testing.T) {
	began, ended := metav1.NewTime(testNow.Add(-3*time.Hour)), metav1.NewTime(testNow)
	for _, op := range []v1alpha1.Operation{
		{Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationCanceled, AdmittedImpact: v1alpha1.ImpactDrain, StartedAt: &began, FinishedAt: &ended},
		{Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseWindowsUpdates, Phase: v1alpha1.OperationSucceeded, AdmittedImpact: v1alpha1.ImpactReboot, StartedAt: &began, FinishedAt: &ended},
		{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, AdmittedImpact: v1alpha1.ImpactDrain, StartedAt: &began, FinishedAt: &ended},
	} {
		i := ready("a")
		i.Status.Operation = &op
		if got := newHost(i).lastServed[slotDisruption]; !got.Equal(testNow) {
			t.Errorf("%s: %s", op.Type, got)
		}
	}
	restarted := ready("a")
	restarted.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, AdmittedImpact: v1alpha1.ImpactRestart, StartedAt: &began, FinishedAt: &ended}
	if got, want := newHost(restarted).lastServed, (servedUntil{slotServiceRestart: testNow}); got != want {
		t.Errorf("services were restarted: %v", got)
	}
}

// TestTurnIsRemembered: what a pool had is remembered for a week when its hosts have forgotten it, or are gone.
func TestTurnIsRemembered(t *testing.T) {
	lasts := map[poolKey]servedUntil{{"ns", "gone"}: {slotDisruption: testNow.Add(-time.Hour)}, {"ns", "long gone"}: {slotDisruption: testNow.Add(-servedFor)}}
	pools := map[poolKey]policy{}
	for _, name := range []string{"p", "q", "gone"} {
		pools[poolKey{"ns", name}] = policyOf(nil, 0)
	}
	got := decide(state{disruptions: 1, now: testNow, pools: pools, served: lasts, hosts: []host{
		outdated("a", "", isUpToDate, changing(slotDisruption)), outdated("b", "", isUpToDate, in("ns", "q"), hadTurn),
	}}).served
	want := map[poolKey]servedUntil{{"ns", "gone"}: lasts[poolKey{"ns", "gone"}], {"ns", "p"}: {slotDisruption: testNow}, {"ns", "q"}: {slotDisruption: testNow}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTurnsOfPoolsThatDoNotExist: a host whose instance names one pool after the other fills no memory, and its namespace does not come first for it.
func TestTurnsOfPoolsThatDoNotExist(t *testing.T) {
	var served map[poolKey]servedUntil
	for _, name := range []string{"x1", "x2", "x3"} {
		served = decide(state{disruptions: 1, now: testNow, served: served, hosts: []host{outdated("a", "", isUpToDate, in("ns", name), hadTurn)}}).served
	}
	if want := map[poolKey]servedUntil{{"ns", ""}: {slotDisruption: testNow}}; !maps.Equal(served, want) {
		t.Errorf("got %v, want %v", served, want)
	}
	got := decide(state{disruptions: 1, now: testNow, served: served, hosts: []host{outdated("a", v1alpha1.ImpactDrain), outdated("z", v1alpha1.ImpactDrain, in("other", "p"))}})
	if names(got.start) != "z" {
		t.Errorf("%s comes first, want z", names(got.start))
	}
}

// TestTurnsAfterAClockThatWasAhead: a time that is still to come puts neither a pool nor its namespace last.
func TestTurnsAfterAClockThatWasAhead(t *testing.T) {
	ahead := testNow.Add(48 * time.Hour)
	pools := map[poolKey]policy{{"ns", "p"}: policyOf(nil, 0), {"ns", "q"}: policyOf(nil, 0), {"other", "p"}: policyOf(nil, 0)}
	for name, s := range map[string]state{
		"remembered": {served: map[poolKey]servedUntil{{"ns", "p"}: {slotDisruption: ahead}}, hosts: []host{outdated("a", v1alpha1.ImpactDrain)}},
		"recorded":   {hosts: []host{outdated("a", v1alpha1.ImpactDrain, func(h *host) { h.lastServed[slotDisruption] = ahead })}},
	} {
		s.now, s.disruptions, s.pools = testNow, 1, pools
		s.hosts = append(s.hosts, outdated("b", v1alpha1.ImpactDrain, in("ns", "q"), hadTurn), outdated("z", v1alpha1.ImpactDrain, in("other", "p"), hadTurn))
		got := decide(s)
		if names(got.start) != "a" {
			t.Errorf("%s: %s comes first, want a", name, names(got.start))
		}
		if until := got.served[poolKey{"ns", "p"}][slotDisruption]; until.After(testNow) {
			t.Errorf("%s: until %s is remembered", name, until)
		}
	}
}

// TestBegun: an operation that waits has begun when the host was changed, or its Node was cordoned.
func TestBegun(t *testing.T) {
	step := func(name string, state v1alpha1.OperationStepState) v1alpha1.OperationStep {
		return v1alpha1.OperationStep{Name: name, State: state}
	}
	for name, tt := range map[string]struct {
		changed bool
		cordon  v1alpha1.OperationStepState
		want    bool
	}{
		"untouched": {cordon: v1alpha1.StepPending},
		"changed":   {cordon: v1alpha1.StepPending, changed: true, want: true},
		"cordoned":  {cordon: v1alpha1.StepSucceeded, want: true},
	} {
		i := ready("a")
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Impact: v1alpha1.ImpactDrain, HostChanged: tt.changed, Steps: []v1alpha1.OperationStep{
			step(v1alpha1.StepPlan, v1alpha1.StepSucceeded), step(v1alpha1.StepWaitForSlot, v1alpha1.StepRunning), step(v1alpha1.StepCordon, tt.cordon),
		}}
		if h := newHost(i); h.waits != v1alpha1.ImpactDrain || h.begun != tt.want || h.half != tt.changed {
			t.Errorf("%s: waits %q, begun %v, half %v", name, h.waits, h.begun, h.half)
		}
	}
}

// TestFailed: an update that should have cost nothing and failed counts until one has succeeded.
func TestFailed(t *testing.T) {
	op := func(kind v1alpha1.OperationType, phase v1alpha1.OperationPhase) v1alpha1.Operation {
		return v1alpha1.Operation{Type: kind, Phase: phase, Revision: "r2", Impact: v1alpha1.ImpactNone, Node: &v1alpha1.OperationNode{Name: "win-1"}, HostChanged: true}
	}
	const update, reboot = v1alpha1.OperationReconfigure, v1alpha1.OperationReboot
	failed := op(update, v1alpha1.OperationFailed)
	for _, tt := range []struct {
		name    string
		newest  v1alpha1.Operation
		history []v1alpha1.Operation
		want    bool
	}{
		{"it has failed", failed, nil, true},
		{"it is tried again", op(update, v1alpha1.OperationRunning), []v1alpha1.Operation{failed}, true},
		{"that was canceled", op(update, v1alpha1.OperationCanceled), []v1alpha1.Operation{failed}, true},
		{"that has succeeded", op(update, v1alpha1.OperationSucceeded), []v1alpha1.Operation{failed}, false},
		{"the host was restarted since", op(reboot, v1alpha1.OperationSucceeded), []v1alpha1.Operation{failed}, true},
		{"it was to get something else", edit(failed, func(o *v1alpha1.Operation) { o.Revision = "r1" }), nil, false},
		{"it has not changed the host", edit(failed, func(o *v1alpha1.Operation) { o.HostChanged = false }), nil, false},
		{"it costs something", edit(failed, func(o *v1alpha1.Operation) { o.Impact = v1alpha1.ImpactDrain }), nil, false},
		{"the host is no Node", edit(failed, func(o *v1alpha1.Operation) { o.Node = nil }), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := needsUpdate("a")
			i.Status.Operation, i.Status.History = &tt.newest, tt.history
			if h := newHost(i); (h.failed != nil) != tt.want {
				t.Errorf("failed: %v, want %v", h.failed, tt.want)
			}
		})
	}
}

func edit(o v1alpha1.Operation, change func(*v1alpha1.Operation)) v1alpha1.Operation {
	change(&o)
	return o
}

// TestLeavingIsNotBroken: what broke a host that is to be removed keeps no other one from its update.
func TestLeavingIsNotBroken(t *testing.T) {
	i := edited(hadRevision("a", "p-1"), breaksAt(rollbackStart))
	if newHost(i).broken == nil {
		t.Error("it is not broken")
	}
	i.DeletionTimestamp = new(metav1.NewTime(rollbackStart))
	if h := newHost(i); h.broken != nil {
		t.Errorf("it is to be removed, and broken by %+v", h.broken)
	}
}
