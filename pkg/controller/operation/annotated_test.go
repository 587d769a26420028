// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestAnnotationsThatAsk: what asks on the Node for what was done is removed once that is done, whoever wanted it, and nothing else is.
func TestAnnotationsThatAsk(t *testing.T) {
	t.Parallel()
	const written, version, reboot = v1alpha1.WrittenVersionAnnotation, wmco.VersionAnnotation, wmco.RebootRequiredAnnotation
	type annotations = map[string]string
	forbid := func(f *fixture) {
		f.kube.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if p, ok := a.(clienttesting.PatchAction); ok && strings.Contains(string(p.GetPatch()), reboot) {
				return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), testNode, errors.New("not allowed"))
			}
			return false, nil, nil
		})
	}
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		has       annotations
		set       func(*fixture)
		fails     bool
		// removed are the annotations that are gone after it.
		removed []string
		says    string
	}{
		{name: "a restart", operation: rebootOperation(v1alpha1.RebootGraceful), has: annotations{reboot: ""}, removed: []string{reboot}, says: "is removed."},
		{name: "a restart that nobody drained for", operation: rebootOperation(v1alpha1.RebootForce), has: annotations{reboot: "x"}, removed: []string{reboot}},
		{name: "a restart, and not a configuration", operation: rebootOperation(v1alpha1.RebootGraceful), has: annotations{written: "v1"}},
		{name: "a restart that was not made", operation: rebootOperation(v1alpha1.RebootGraceful), has: annotations{reboot: ""}, set: func(f *fixture) { f.drain.err = errors.New("pods do not leave") }, fails: true},
		{name: "a restart, and it cannot be removed", operation: rebootOperation(v1alpha1.RebootGraceful), has: annotations{reboot: ""}, set: forbid, says: "Node win-1 cannot be removed"},
		{name: "a configuration, the version removed", operation: reconfigureOperation(), has: annotations{written: "v1"}, removed: []string{written}, says: "is removed."},
		{name: "a configuration, the version changed", operation: reconfigureOperation(), has: annotations{written: "v1", version: "invalid"}, removed: []string{written}},
		{name: "a configuration that nobody asked for", operation: reconfigureOperation(), has: annotations{written: "v1", version: "v1", reboot: ""}},
		{name: "a configuration that failed", operation: reconfigureOperation(), has: annotations{written: "v1"}, set: func(f *fixture) { f.failWith("Plan", errors.New("no")) }, fails: true},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(tt.operation))
			f.configure()
			f.annotate(tt.has)
			if tt.set != nil {
				tt.set(f)
			}
			op := f.finish()
			if (op.Phase == v1alpha1.OperationFailed) != tt.fails {
				t.Fatalf("it is %s: %s", op.Phase, op.Message)
			}
			want := maps.Clone(tt.has)
			for _, key := range tt.removed {
				delete(want, key)
			}
			got := f.node().Annotations
			delete(got, v1alpha1.CordonedByAnnotation)
			if !maps.Equal(got, want) {
				t.Errorf("annotations %v, want %v", got, want)
			}
			name := v1alpha1.StepBoot
			if op.Type == v1alpha1.OperationReconfigure {
				name = v1alpha1.StepVerify
			}
			if got := op.FindStep(name).Message; !strings.Contains(got, tt.says) {
				t.Errorf("it says %s", got)
			}
		})
	}
}

// TestAnnotationWithdrawn: a restart is not begun whose annotation somebody has removed meanwhile.
func TestAnnotationWithdrawn(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{"it is there": {wmco.RebootRequiredAnnotation: ""}, "it is gone": nil} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), becauseOf(v1alpha1.CauseRestartAnnotated), func(i *v1alpha1.WindowsInstance) {
				i.Status.Node = &v1alpha1.NodeReference{Name: testNode}
			}))
			f.configure()
			node := f.node()
			f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = node.UID })
			f.annotate(annotations)
			op := f.finish()
			if gone := annotations == nil; gone != (op.Phase == v1alpha1.OperationCanceled) || gone != strings.HasPrefix(op.Message, "Not begun, because Node win-1 does not have the annotation") ||
				gone == (f.host.restarts() == 1) {
				t.Errorf("it is %s: %s; %d restarts", op.Phase, op.Message, f.host.restarts())
			}
		})
	}
}

// TestRenewalWithdrawn: a host that waits for the slot of a configuration that an annotation asked for is left as it is once its pool is
// paused, the Node has its version again, or something else goes first. Nor does it wait once something else is desired: that is an update, which may wait
// for somebody, and meanwhile nothing else could be done to the host.
func TestRenewalWithdrawn(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(f *fixture){
		"paused": func(f *fixture) {
			i := f.get()
			i.Spec.Paused = true
			if err := f.raw.Update(f.t.Context(), i); err != nil {
				f.t.Fatal(err)
			}
		},
		"the version is back": func(f *fixture) {
			f.annotate(map[string]string{v1alpha1.WrittenVersionAnnotation: "v1", wmco.VersionAnnotation: "v1"})
		},
		"another configuration":  func(f *fixture) { f.policy.givesWayTo.Store(new("the host gets another configuration.")) },
		"something else desired": func(f *fixture) { f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "newer" }) },
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), inPool("pool"), askedForBy(v1alpha1.ControllerRequester), becauseOf(v1alpha1.CauseVersionChanged), func(i *v1alpha1.WindowsInstance) {
				i.Status.Node, i.Status.Operation.AdmittedImpact = &v1alpha1.NodeReference{Name: testNode}, v1alpha1.ImpactNone
				i.Status.CurrentRevision, i.Status.DesiredRevision = "new", "new"
			}), brokenNeighbor())
			f.configure()
			f.host.impact = config.ImpactDrain
			node := f.node()
			f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.Node.UID = node.UID })
			f.annotate(map[string]string{v1alpha1.WrittenVersionAnnotation: "v1"})
			r, _ := f.process()
			f.reconcile(r)
			f.eventually("it to wait", func() bool {
				return strings.Contains(f.get().Status.Operation.Message, "changed host win-2 and failed")
			})
			withdraw(f)
			op := f.waitForEnd()
			if op.Phase != v1alpha1.OperationCanceled || !strings.HasPrefix(op.Message, "Not begun, because") && !strings.HasPrefix(op.Message, "Not continued, because") || f.node().Spec.Unschedulable || f.host.count("Apply") > 0 {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
		})
	}
}

// TestCameBackRestarted: a restart that took too long fulfills what an annotation asked for, as soon as its Node takes pods again, also if a repair has
// found since that nothing was to be done. One that was seen does not: it has fulfilled what was asked before.
func TestCameBackRestarted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.WindowsInstance)
		asks bool
	}{
		"it restarted": {edit: restartedNow},
		"it did not":   {asks: true},
		"a repair has left it as it was": {edit: func(i *v1alpha1.WindowsInstance) {
			restartedNow(i)
			later := metav1.NewTime(time.Now().Add(time.Minute))
			i.Status.History = append([]v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseNodeNotReady, Phase: v1alpha1.OperationSucceeded, StartedAt: &later, FinishedAt: &later}}, i.Status.History...)
		}},
		"it restarted in time, and its Node was not ready": {asks: true, edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.RestartedAt = new(metav1.NewTime(time.Now().Add(-30 * time.Minute)))
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(v1alpha1.Operation{Type: v1alpha1.OperationUncordon, Cause: v1alpha1.CauseCameBack}), failedRestart("")))
			f.configure()
			if tt.edit != nil {
				f.edit(tt.edit)
			}
			f.annotate(map[string]string{wmco.RebootRequiredAnnotation: ""})
			op := f.finish()
			if asks := object.AsksForRestart(f.node()); op.Phase != v1alpha1.OperationSucceeded || asks != tt.asks {
				t.Errorf("it is %s: %s; asks %t", op.Phase, op.Message, asks)
			}
		})
	}
}

// failedRestart has a restart of an instance have failed that was begun an hour ago, and asked the host for it.
func failedRestart(cause v1alpha1.OperationCause) func(*v1alpha1.WindowsInstance) {
	return func(i *v1alpha1.WindowsInstance) {
		began := metav1.NewTime(time.Now().Add(-time.Hour))
		i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReboot, Cause: cause, Phase: v1alpha1.OperationFailed, BootID: "b", StartedAt: &began, FinishedAt: new(metav1.Now())}}
	}
}

// restartedNow has the host of an instance be started now.
func restartedNow(i *v1alpha1.WindowsInstance) {
	i.Status.System = &v1alpha1.SystemStatus{BootTime: new(metav1.NewTime(time.Now().Add(time.Second)))}
}

// TestRestartedLate: a host is not restarted again for an annotation that it was restarted for and that is still there, as it was back too late and
// nobody has uncordoned its Node for that.
func TestRestartedLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause    v1alpha1.OperationCause
		edit     func(*v1alpha1.WindowsInstance)
		restarts int
	}{
		"it restarted":              {cause: v1alpha1.CauseRestartAnnotated, edit: restartedNow},
		"it did not":                {cause: v1alpha1.CauseRestartAnnotated, restarts: 1},
		"it did for something else": {cause: v1alpha1.CauseRestartPending, edit: restartedNow, restarts: 1},
		"it was back in time, and asks once more": {cause: v1alpha1.CauseRestartAnnotated, edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.RestartedAt = new(metav1.NewTime(time.Now().Add(-30 * time.Minute)))
		}, restarts: 1},
		"it was found late, and asks once more": {cause: v1alpha1.CauseRestartAnnotated, restarts: 1, edit: func(i *v1alpha1.WindowsInstance) {
			restartedNow(i)
			i.Status.History = append([]v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationReboot, Cause: v1alpha1.CauseRestartAnnotated, Phase: v1alpha1.OperationSucceeded, StartedAt: new(metav1.Now()), FinishedAt: new(metav1.Now())}}, i.Status.History...)
		}},
		"its cordon was lifted, and it asks once more": {cause: v1alpha1.CauseRestartAnnotated, restarts: 1, edit: func(i *v1alpha1.WindowsInstance) {
			restartedNow(i)
			i.Status.History = append([]v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationUncordon, Cause: v1alpha1.CauseCameBack, Phase: v1alpha1.OperationSucceeded, StartedAt: new(metav1.Now()), FinishedAt: new(metav1.Now())}}, i.Status.History...)
		}},
		"one that left the history was seen since": {cause: v1alpha1.CauseRestartAnnotated, restarts: 1, edit: func(i *v1alpha1.WindowsInstance) {
			restartedNow(i)
			i.Status.RestartedAt = new(metav1.NewTime(time.Now().Add(time.Minute)))
		}},
		"another one was seen since": {cause: v1alpha1.CauseRestartAnnotated, restarts: 1, edit: func(i *v1alpha1.WindowsInstance) {
			restartedNow(i)
			i.Status.History = append([]v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, BootID: "c", StartedAt: new(metav1.Now()), FinishedAt: new(metav1.Now())}}, i.Status.History...)
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), becauseOf(v1alpha1.CauseRestartAnnotated), failedRestart(tt.cause), func(i *v1alpha1.WindowsInstance) {
				i.Status.Node = &v1alpha1.NodeReference{Name: testNode}
			}))
			f.configure()
			node := f.node()
			f.edit(func(i *v1alpha1.WindowsInstance) {
				if i.Status.Node.UID = node.UID; tt.edit != nil {
					tt.edit(i)
				}
			})
			f.annotate(map[string]string{wmco.RebootRequiredAnnotation: ""})
			op := f.finish()
			if op.Phase != v1alpha1.OperationSucceeded || f.host.restarts() != tt.restarts || object.AsksForRestart(f.node()) {
				t.Errorf("it is %s: %s; %d restarts, asks %t", op.Phase, op.Message, f.host.restarts(), object.AsksForRestart(f.node()))
			}
		})
	}
}
