// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// fit is the host that [works] returns, with the name, a Node of that name and nothing in the way of a configuration.
func fit(name string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	return works(append([]func(*v1alpha1.WindowsInstance){
		condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionTrue, "", -time.Hour),
		func(i *v1alpha1.WindowsInstance) {
			i.Name, i.UID = name, types.UID(name)
			i.Status.Node = &v1alpha1.NodeReference{Name: name, UID: types.UID("uid-" + name)}
		},
	}, edit...)...)
}

func annotatedNode(name string, annotations map[string]string) *corev1.Node {
	node := newNode(name, types.UID("uid-"+name), corev1.ConditionTrue)
	node.Annotations = annotations
	return node
}

var (
	cleared        = map[string]string{v1alpha1.WrittenVersionAnnotation: "v1"}
	rebootRequired = map[string]string{wmco.RebootRequiredAnnotation: ""}
)

// TestAnnotated: what annotations of a Node ask for is done at once, and the more seldom the more often they ask, whether it
// succeeded or not.
func TestAnnotated(t *testing.T) {
	const (
		succeeded = v1alpha1.OperationSucceeded
		failed    = v1alpha1.OperationFailed
		day       = 24 * time.Hour
	)
	type edits = []func(*v1alpha1.WindowsInstance)
	for _, tt := range []struct {
		name string
		// did are operations of the cause, the newest first, by how long ago they ended.
		did     []v1alpha1.OperationPhase
		ago     []time.Duration
		edit    edits
		refused bool
		// otherwise: they failed in their drain, when the pool gave that a minute.
		otherwise bool
		due       time.Duration // from testNow; never: at any time
	}{
		{name: "for the first time", due: never},
		{name: "again", did: []v1alpha1.OperationPhase{succeeded}, ago: []time.Duration{-time.Minute}, due: 9 * time.Minute},
		{name: "again and again", did: []v1alpha1.OperationPhase{succeeded, failed, succeeded}, ago: []time.Duration{-time.Minute, -day, -2 * day}, due: 39 * time.Minute},
		{name: "after a rest", did: []v1alpha1.OperationPhase{succeeded, failed}, ago: []time.Duration{-time.Minute, -3 * day}, due: 9 * time.Minute},
		{name: "long ago", did: []v1alpha1.OperationPhase{succeeded}, ago: []time.Duration{-3 * day}, due: never},
		{name: "somebody canceled it", did: []v1alpha1.OperationPhase{v1alpha1.OperationCanceled}, ago: []time.Duration{-time.Hour}, due: 23 * time.Hour},
		{name: "its pods did not leave, and the pool drains in another way since", did: []v1alpha1.OperationPhase{failed, failed}, ago: []time.Duration{-time.Minute, -day}, otherwise: true, due: redrainPause - time.Minute},
		{name: "by a clock that ran ahead", did: []v1alpha1.OperationPhase{succeeded}, ago: []time.Duration{day}, due: never},
		{name: "paused", edit: edits{func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }}, refused: true},
		{name: "only watched", edit: edits{condition(v1alpha1.ConditionConfigured, metav1.ConditionTrue, v1alpha1.ReasonNotManaged, 0)}, refused: true},
		{name: "being removed", edit: edits{deleting}, refused: true},
	} {
		for cause, kind := range map[v1alpha1.OperationCause]v1alpha1.OperationType{v1alpha1.CauseVersionChanged: v1alpha1.OperationReconfigure, v1alpha1.CauseRestartAnnotated: v1alpha1.OperationReboot} {
			t.Run(fmt.Sprintf("%s: %s", cause, tt.name), func(t *testing.T) {
				edit := tt.edit
				for n, phase := range tt.did {
					edit = append(edit, did(kind, cause, phase, tt.ago[n]))
				}
				asks, annotations := annotatedRestart, rebootRequired
				if cause == v1alpha1.CauseVersionChanged {
					asks, annotations = renewal, cleared
				}
				i := fit("a", edit...)
				for _, op := range i.Status.Operations() {
					if tt.otherwise {
						op.BootID, op.Drain = "", v1alpha1.PoolDrainOptions{TimeoutSeconds: new(int64(60))}.Recorded()
					}
				}
				due, ok := asks(i, nil, annotatedNode("a", annotations), testNow)
				if ok == tt.refused || ok && tt.due != never && !due.Equal(testNow.Add(tt.due)) || tt.due == never && due.After(testNow) {
					t.Errorf("%t, at %s", ok, due)
				}
				if _, ok := asks(i, nil, annotatedNode("a", nil), testNow); ok {
					t.Error("without the annotation")
				}
			})
		}
	}
}

// TestAnnotatedInTurn: whoever asks for the one and the other, or takes back what it asked for, asks as often.
func TestAnnotatedInTurn(t *testing.T) {
	flaps := did(v1alpha1.OperationReboot, v1alpha1.CauseRestartAnnotated, v1alpha1.OperationCanceled, -2*time.Minute)
	i := fit("a", did(v1alpha1.OperationReconfigure, v1alpha1.CauseVersionChanged, v1alpha1.OperationSucceeded, -time.Minute), flaps)
	i.Status.History[0].CancelRequestedAt = nil // it was withdrawn before it began
	if due, ok := annotatedRestart(i, nil, annotatedNode("a", rebootRequired), testNow); !ok || !due.Equal(testNow.Add(19*time.Minute)) {
		t.Errorf("%t, %s", ok, due)
	}
}

// TestAnnotatedBesideRestarts: a restart that somebody asked for brings the update that waits for it, and fulfills the annotation.
func TestAnnotatedBesideRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		pool.Spec.Restarts.After = new(metav1.NewTime(testNow.Add(-time.Minute)))
		f := newScheduled(t, nil, pool, fit("a"), annotatedNode("a", rebootRequired))
		f.clock = clocktesting.NewFakePassiveClock(testNow)
		f.pass()
		if op := f.operation("a"); op.Cause != v1alpha1.CauseRestartRequested {
			t.Errorf("it has %+v", op)
		}
	})
}

// TestRenewedByNamespace: hosts that take long keep only their own namespace waiting.
func TestRenewedByNamespace(t *testing.T) {
	s := state{now: testNow, disruptions: 1}
	for n := range maxRenewed {
		s.hosts = append(s.hosts, outdated(fmt.Sprintf("a%02d", n), "", isUpToDate, func(h *host) { h.renews = true }))
	}
	renewed := func(h *host) { h.renew = true }
	s.hosts = append(s.hosts, outdated("b", "", isUpToDate, renewed), outdated("c", "", isUpToDate, renewed, in("other", "p")))
	if got := names(decide(s).start); got != "c" {
		t.Errorf("started: %s", got)
	}
}

// TestRenewalIsNotNeeded: a host that is configured anyway, or cannot be, is not configured because of an annotation.
func TestRenewalIsNotNeeded(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.WindowsInstance){
		"it is not configured":   condition(v1alpha1.ConditionConfigured, metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed, 0),
		"inputs are missing":     condition(v1alpha1.ConditionConfigured, metav1.ConditionTrue, v1alpha1.ReasonInputsMissing, 0),
		"it is not fit":          condition(v1alpha1.ConditionPreflightPassed, metav1.ConditionFalse, "", 0),
		"nobody knows with what": func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "" },
		"nobody has confirmed":   func(i *v1alpha1.WindowsInstance) { i.Status.UnconfirmedSince = new(metav1.NewTime(testNow)) },
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := renewal(fit("a", edit), nil, annotatedNode("a", cleared), testNow); ok {
				t.Error("it is configured again")
			}
		})
	}
}

// TestScheduleAnnotated: the hosts of a fleet whose Nodes all ask are restarted within the bounds of their pool, and are asked by
// some at a time what a new configuration costs, which costs their pods nothing yet.
func TestScheduleAnnotated(t *testing.T) {
	const hosts = maxRenewed + 3
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		kind        v1alpha1.OperationType
		cause       v1alpha1.OperationCause
		admitted    v1alpha1.ChangeImpact
		at          int // how many at the same time
		waits       string
	}{
		{"the version", cleared, v1alpha1.OperationReconfigure, v1alpha1.CauseVersionChanged, v1alpha1.ImpactNone, maxRenewed, "and 11 more; at most 16 of a namespace are configured again at a time because annotations of their Nodes ask for it."},
		{"a restart", rebootRequired, v1alpha1.OperationReboot, v1alpha1.CauseRestartAnnotated, "", 1, "at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []client.Object{&v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}}
				for n := range hosts {
					name := fmt.Sprintf("a%02d", n)
					objects = append(objects, fit(name), annotatedNode(name, tt.annotations))
				}
				f := newScheduled(t, nil, objects...)
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				before := &v1alpha1.WindowsInstanceList{}
				if err := f.client.List(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				f.pass()
				f.stale = before // the cache does not have them yet
				f.pass()
				f.stale = nil
				f.pass()
				began := 0
				for n := range hosts {
					op := f.operation(fmt.Sprintf("a%02d", n))
					if op == nil {
						continue
					}
					if began++; op.Type != tt.kind || op.Cause != tt.cause || op.AdmittedImpact != tt.admitted || !op.ByController() {
						t.Errorf("it has %+v", op)
					}
				}
				if began != tt.at {
					t.Errorf("%d hosts at the same time, want %d", began, tt.at)
				}
				if got := f.blockedBy(poolKey{"ns", "p"}).text; !strings.Contains(got, tt.waits) {
					t.Errorf("the others wait: %s", got)
				}
				if got := <-f.events.Events; !strings.HasPrefix(got, "Normal "+string(tt.cause)+" ") {
					t.Errorf("event %q", got)
				}
			})
		})
	}
}

// TestRenewalThatDisrupts: what a configuration that an annotation asks for turns out to cost is admitted as a restart is, also by a
// pool whose hosts are updated on request: it brings nothing new. One that would is an update.
func TestRenewalThatDisrupts(t *testing.T) {
	for _, tt := range []struct {
		name, revision, current, desired string
		admitted                         v1alpha1.ChangeImpact
	}{
		{"what the host should have", "r2", "r2", "r2", v1alpha1.ImpactDrain},
		{"something new", "r3", "r2", "r3", v1alpha1.ImpactNone},
		{"something new since it waits", "r2", "r2", "r3", v1alpha1.ImpactNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.UpdateStrategy.Type = v1alpha1.OnRequest
				waiting := fit("a", func(i *v1alpha1.WindowsInstance) {
					op := &v1alpha1.Operation{
						ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController, Cause: v1alpha1.CauseVersionChanged,
						Revision: tt.revision, Impact: v1alpha1.ImpactDrain, AdmittedImpact: v1alpha1.ImpactNone, Node: &v1alpha1.OperationNode{Name: "a"}, Steps: newSteps(),
					}
					op.FindStep(v1alpha1.StepWaitForSlot).State = v1alpha1.StepRunning
					i.Status.Operation, i.Status.CurrentRevision, i.Status.DesiredRevision = op, tt.current, tt.desired
				})
				f := newScheduled(t, nil, pool, waiting)
				f.pass()
				if op := f.operation("a"); op.ID != "op-1" || op.AdmittedImpact != tt.admitted {
					t.Errorf("it has %+v", op)
				}
			})
		})
	}
}

// TestNodeChanges: what a Node asks for is decided about when it does, and not at each of its heartbeats.
func TestNodeChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after map[string]string
		want          bool
	}{
		"a heartbeat":             {cleared, cleared, false},
		"other annotations":       {nil, map[string]string{"theirs": "1"}, false},
		"it asks for a restart":   {nil, rebootRequired, true},
		"that is withdrawn":       {rebootRequired, nil, true},
		"the version was removed": {map[string]string{v1alpha1.WrittenVersionAnnotation: "v1", wmco.VersionAnnotation: "v1"}, cleared, true},
		"a new release":           {map[string]string{v1alpha1.WrittenVersionAnnotation: "v1", wmco.VersionAnnotation: "v1"}, map[string]string{v1alpha1.WrittenVersionAnnotation: "v2", wmco.VersionAnnotation: "v2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nodeChanges.Update(event.UpdateEvent{ObjectOld: annotatedNode("a", tt.before), ObjectNew: annotatedNode("a", tt.after)}); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if !nodeChanges.Update(event.UpdateEvent{ObjectOld: newNode("a", "", corev1.ConditionTrue), ObjectNew: newNode("a", "", corev1.ConditionUnknown)}) {
		t.Error("that it is not ready any more is not decided about")
	}
}
