// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// TestCanary: as many hosts as canary says get a change before the others, and only what was tried on that many keeps others from it: a
// template that somebody has reverted leaves none of them with the one that was tried, and a change of one host waits for nobody.
func TestCanary(t *testing.T) {
	const canaries, hosts = 2, 5
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: 3}}
	pool.Status.ObservedGeneration = 3
	pool.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.FromInt32(canaries))
	pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("100%"))
	named := func(template string) string {
		pool.Spec.Template.NodeLabels = map[string]string{"template": template}
		name, err := revision.NameOf(pool, document.Payload{})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	first, second := named("first"), named("second")
	// A host that got something with a revision of its pool a while ago, and one that lacks what it is to have, for a while.
	got := func(of string, ago time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision = of
			op := reconfigured(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain)
			op.Revision, op.FinishedAt = i.Status.CurrentRevision, at(-ago)
			i.Status.Operation = &op
		}
	}
	lacks := func(of string, since time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			got(of, 100*time.Hour)(i)
			i.Status.DesiredRevision, i.Status.DesiredPoolRevision = "r3", "of r3"
			condition(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated, -since)(i)
		}
	}
	// One that was given a revision of its pool by its last operation, of which it has not said yet that it works with it: the cluster was changed first.
	justGot := func(of string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			lacks(first, time.Second)(i)
			i.Status.Operation.PoolRevision, i.Status.Operation.FinishedAt = of, at(-time.Minute)
		}
	}
	// The same one while it is given what was changed, or was not.
	since := func(phase v1alpha1.OperationPhase) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			justGot(second)(i)
			op := reconfigured(phase, v1alpha1.ImpactNone)
			op.Origin, op.AdmittedImpact, op.Revision, op.PoolRevision, op.RequestedAt = v1alpha1.OriginController, v1alpha1.ImpactNone, "r3", "of r3", *at(-time.Second)
			if phase == v1alpha1.OperationFailed {
				op.FinishedAt, op.Steps = at(0), newSteps()
			}
			i.Status.History, i.Status.Operation = []v1alpha1.Operation{*i.Status.Operation}, &op
		}
	}
	for _, tt := range []struct {
		name             string
		current, update  string
		unseen           bool   // the controller of pools has not seen the newest template
		granted          string // the host that was granted something without a slot, which the cache does not have yet
		hosts            [hosts]func(*v1alpha1.WindowsInstance)
		started, waiting int
		starts           string // which ones, where others would not do
	}{
		{name: "a new template reaches as many", current: first, update: second, started: canaries, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "and no further ones", current: first, update: second, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			got(second, time.Minute), got(second, time.Minute), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "not even those that were away meanwhile", current: first, update: second, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			got(second, time.Hour), got(second, time.Hour), lacks(first, time.Minute), lacks(first, time.Minute), lacks(first, time.Minute),
		}},
		{name: "nor when they lack something else since", current: first, update: second, started: canaries, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(second, time.Minute), lacks(second, time.Minute), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "nor when one of them does", current: first, update: second, started: 1, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(second, time.Minute), got(second, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "nor while it is not known whether one was granted that", current: first, update: second, granted: "a", waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(second, time.Minute), got(second, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "nor when they have not said yet that they work with it", current: first, update: second, started: canaries, starts: "de", waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), justGot(second), justGot(second),
		}},
		{name: "nor while these are given what was changed", current: first, update: second, started: canaries, starts: "de", waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), since(v1alpha1.OperationRunning), since(v1alpha1.OperationRunning),
		}},
		{name: "nor when that has failed", current: first, update: second, started: canaries, starts: "de", waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), since(v1alpha1.OperationFailed), since(v1alpha1.OperationFailed),
		}},
		{name: "but as many get it where those got another one", current: first, update: second, started: canaries, starts: "ab", waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), justGot(first), justGot(first),
		}},
		{name: "all of them get back what all worked with", current: first, update: first, started: 3, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(second, time.Hour), lacks(second, time.Hour), lacks(second, time.Hour), got(first, 100*time.Hour), got(first, 100*time.Hour),
		}},
		{name: "before it is known what the newest template is", current: first, update: first, unseen: true, started: 0, waiting: 3, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(second, time.Hour), lacks(second, time.Hour), lacks(second, time.Hour), got(first, 100*time.Hour), got(first, 100*time.Hour),
		}},
		{name: "those that worked with the other one for a moment as well", current: first, update: first, started: canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Minute), lacks(first, time.Minute), got(first, 100*time.Hour), got(first, 100*time.Hour), got(first, 100*time.Hour),
		}},
		{name: "a change of the cluster reaches as many", current: first, update: first, started: canaries, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Hour),
		}},
		{name: "and no further ones", current: first, update: first, waiting: hosts - canaries, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			got(first, 30*time.Minute), got(first, 50*time.Minute), lacks(first, time.Hour), lacks(first, time.Hour), lacks(first, time.Minute),
		}},
		{name: "a change of one host waits for none", current: first, update: first, started: 1, hosts: [hosts]func(*v1alpha1.WindowsInstance){
			lacks(first, time.Hour), got(first, 2*time.Hour), got(first, 100*time.Hour), got(first, 100*time.Hour), got(first, 100*time.Hour),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				of := pool.DeepCopy()
				of.Status.CurrentRevision, of.Status.UpdateRevision = tt.current, tt.update
				if tt.unseen {
					of.Generation++
				}
				says := map[string]v1alpha1.ChangeImpact{}
				f := newScheduled(t, says, of)
				f.options.Disruptions, f.clock = hosts, clocktesting.NewFakePassiveClock(testNow)
				for n, edit := range tt.hosts {
					i := works(edit)
					i.Name = string(rune('a' + n))
					i.Status.Node = &v1alpha1.NodeReference{Name: i.Name}
					says[i.Name] = v1alpha1.ImpactDrain
					for _, object := range append(nodesOf([]client.Object{i}), i) {
						if err := f.client.Create(t.Context(), object); err != nil {
							t.Fatal(err)
						}
					}
				}
				if tt.granted != "" {
					i := f.get(tt.granted)
					f.written[client.ObjectKeyFromObject(i)] = grantWritten{before: i.ResourceVersion, lapses: testNow.Add(time.Minute)}
				}
				f.pass()
				f.pass()
				started, starts := 0, ""
				for n := range hosts {
					if name := string(rune('a' + n)); f.operation(name).Active() {
						started, starts = started+1, starts+name
						if op := f.operation(name); op.Revision != "r3" || op.PoolRevision != "of r3" {
							t.Errorf("%s is to get %s of %s", name, op.Revision, op.PoolRevision)
						}
					}
				}
				if tt.starts != "" && tt.starts != starts {
					t.Errorf("%s are updated, want %s", starts, tt.starts)
				}
				waiting := 0
				for key, why := range f.last.waits {
					if waiting++; why.kind != waitsForCanary {
						t.Errorf("%s waits for %q", key.Name, f.WaitsFor(key))
					}
				}
				if text := f.blockedBy(poolKey{"ns", "p"}).text; started != tt.started || waiting != tt.waiting || (waiting > 0) != strings.Contains(text, "2 hosts of pool p were updated first.") {
					t.Errorf("%d are updated and %d wait, want %d and %d: %q", started, waiting, tt.started, tt.waiting, text)
				}
			})
		})
	}
}

// TestCanaryDoesNotKeepHalfUpdatedHosts: a host whose update ended in the middle, for example because it could not be reached any more, does not wait
// for a canary that somebody has set since: it does not work as before.
func TestCanaryDoesNotKeepHalfUpdatedHosts(t *testing.T) {
	const drains = v1alpha1.ImpactDrain
	ended := func(phase v1alpha1.OperationPhase, edit func(*v1alpha1.Operation)) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			op := reconfigured(phase, drains)
			op.Origin, op.AdmittedImpact, op.Revision, op.StartedAt, op.FinishedAt = v1alpha1.OriginController, drains, i.Status.DesiredRevision, at(-time.Hour), at(-30*time.Minute)
			op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepDrain).State = v1alpha1.StepSucceeded, v1alpha1.StepSucceeded
			edit(&op)
			i.Status.Operation = &op
		}
	}
	down := condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -40*time.Minute)
	cordoned := cordonedNode("op-failed Reconfigure (asked for by windows-controller)")
	archive := func(i *v1alpha1.WindowsInstance) { // as the history keeps it
		if err := i.Status.Record(&v1alpha1.Operation{ID: "op-since", Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationSucceeded}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		node *corev1.Node
		edit []func(*v1alpha1.WindowsInstance)
		want bool // it is updated
	}{
		{"it was not begun", newNode("a", "", corev1.ConditionTrue), nil, false},
		{"it failed when the host was changed", newNode("a", "", corev1.ConditionFalse), []func(*v1alpha1.WindowsInstance){down, ended(v1alpha1.OperationFailed, func(*v1alpha1.Operation) {})}, true},
		{"and is in the history", newNode("a", "", corev1.ConditionFalse), []func(*v1alpha1.WindowsInstance){down, ended(v1alpha1.OperationFailed, func(*v1alpha1.Operation) {}), archive}, true},
		{"it failed when the Node was drained, which stayed cordoned", cordoned, []func(*v1alpha1.WindowsInstance){down, ended(v1alpha1.OperationFailed, func(op *v1alpha1.Operation) { op.HostChanged = false })}, true},
		{"somebody has canceled it", cordoned, []func(*v1alpha1.WindowsInstance){down, ended(v1alpha1.OperationCanceled, func(op *v1alpha1.Operation) { op.CancelRequestedAt = at(-time.Hour) })}, true},
		{"it goes on, and needs more than it was admitted with", newNode("a", "", corev1.ConditionFalse), []func(*v1alpha1.WindowsInstance){down, ended(v1alpha1.OperationRunning, func(op *v1alpha1.Operation) {
			op.AdmittedImpact, op.FinishedAt = v1alpha1.ImpactRestart, nil
			op.FindStep(v1alpha1.StepWaitForSlot).State, op.FindStep(v1alpha1.StepCordon).State, op.FindStep(v1alpha1.StepDrain).State = v1alpha1.StepRunning, v1alpha1.StepPending, v1alpha1.StepPending
		})}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.FromInt32(1))
				i := works(func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r3" })
				for _, edit := range tt.edit {
					edit(i)
				}
				tt.node.UID = ""
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": drains}, pool, i, edited(works(), func(i *v1alpha1.WindowsInstance) { i.Name, i.Status.Node = "b", &v1alpha1.NodeReference{Name: "b"} }), tt.node)
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				f.pass()
				f.pass()
				if op := f.operation("a"); (op.Active() && op.AdmittedImpact == drains) != tt.want {
					t.Errorf("it has %+v, and waits for %q", op, f.WaitsFor(client.ObjectKeyFromObject(i)))
				}
			})
		})
	}
}
