// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const byController = "op-1 Reboot (asked for by windows-controller)"

// cordonedNode is the Node of the host that [works] returns.
func cordonedNode(by string) *corev1.Node {
	node := newNode("a", "uid-a", corev1.ConditionTrue)
	node.Spec.Unschedulable = true
	if by != "" {
		node.Annotations = map[string]string{v1alpha1.CordonedByAnnotation: by}
	}
	return node
}

// TestCameBack: a Node that a restart of ours has left cordoned takes pods again when it is ready, once it has been for a
// while; what people did is theirs.
func TestCameBack(t *testing.T) {
	const reboot = v1alpha1.OperationReboot
	named := func(id string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Status.Operation.ID = id }
	}
	failed := did(reboot, v1alpha1.CauseRestartRequested, v1alpha1.OperationFailed, -time.Hour)
	ready := condition(v1alpha1.ConditionNodeReady, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, -time.Second)
	const byAlice = "op-1 Reboot (asked for by alice)"
	late := byAlice + ", until the Node is ready after " + testNow.Add(-2*time.Hour).UTC().Format(time.RFC3339)
	for _, tt := range []struct {
		name string
		node *corev1.Node
		edit []func(*v1alpha1.WindowsInstance)
		want bool
		due  time.Duration
	}{
		{"it is ready again", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){failed, named("op-1"), ready}, true, time.Minute - time.Second},
		{"somebody canceled it", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){did(reboot, v1alpha1.CauseRestartPending, v1alpha1.OperationCanceled, -time.Hour), named("op-1"), ready}, true, time.Minute - time.Second},
		{"it is not ready", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){failed, named("op-1"), condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, 0)}, false, 0},
		{"it is uncordoned", &corev1.Node{}, []func(*v1alpha1.WindowsInstance){failed, named("op-1"), ready}, false, 0},
		{"somebody else cordoned it", cordonedNode(""), []func(*v1alpha1.WindowsInstance){failed, named("op-1"), ready}, false, 0},
		{"a person asked for the restart", cordonedNode("op-1 Reboot (asked for by alice)"), []func(*v1alpha1.WindowsInstance){did(reboot, "", v1alpha1.OperationFailed, -time.Hour), named("op-1"), ready}, false, 0},
		{"the restart that a person asked for took too long", cordonedNode(late), []func(*v1alpha1.WindowsInstance){ready}, true, time.Minute - time.Second},
		{"and other operations were recorded since", cordonedNode(late), []func(*v1alpha1.WindowsInstance){did(v1alpha1.OperationRestartServices, v1alpha1.CauseNodeNotReady, v1alpha1.OperationFailed, -time.Hour), ready}, true, time.Minute - time.Second},
		{"and it is still in the boot before", cordonedNode(late), []func(*v1alpha1.WindowsInstance){condition(v1alpha1.ConditionNodeReady, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, -3*time.Hour)}, false, 0},
		{"and is not ready", cordonedNode(late), []func(*v1alpha1.WindowsInstance){condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, 0)}, false, 0},
		{"and they have cordoned it themselves since", cordonedNode(""), []func(*v1alpha1.WindowsInstance){ready}, false, 0},
		{"and they have drained it since", cordonedNode("op-2 (asked for by alice) instead of " + late), []func(*v1alpha1.WindowsInstance){ready}, false, 0},
		{"somebody has drained it since", cordonedNode("op-2 (asked for by alice) instead of " + byController), []func(*v1alpha1.WindowsInstance){failed, named("op-1"), ready}, false, 0},
		{"its record is gone from the history", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){ready}, true, time.Minute - time.Second},
		{"it is being restarted", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){did(reboot, v1alpha1.CauseRestartRequested, v1alpha1.OperationRunning, 0), ready}, false, 0},
		{"it is drained", cordonedNode("op-1 (asked for by windows-controller)"), []func(*v1alpha1.WindowsInstance){did(v1alpha1.OperationDrain, "", v1alpha1.OperationFailed, -time.Hour), named("op-1"), ready}, false, 0},
		{"the instance is paused", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){failed, named("op-1"), ready, func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true }}, false, 0},
		{"it did not work just now", cordonedNode(byController), []func(*v1alpha1.WindowsInstance){did(v1alpha1.OperationUncordon, v1alpha1.CauseCameBack, v1alpha1.OperationFailed, 0), failed, func(i *v1alpha1.WindowsInstance) { i.Status.History[0].ID = "op-1" }, ready}, true, 10 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ok, due := cameBack(works(tt.edit...), nil, tt.node)
			if ok != tt.want || ok && !due.Equal(testNow.Add(tt.due)) {
				t.Errorf("%t, at %s", ok, due)
			}
		})
	}
}

// TestScheduleACordonedNode: a Node that is cordoned counts as one that is out of service, and the cordon of a restart that
// failed is lifted by an operation.
func TestScheduleACordonedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1alpha1.WindowsNodePoolSpec{Restarts: v1alpha1.PoolRestarts{After: at(-2 * time.Hour)}}}
		cordoned := works(did(v1alpha1.OperationReboot, v1alpha1.CauseRestartRequested, v1alpha1.OperationFailed, -time.Hour), condition(v1alpha1.ConditionNodeReady, metav1.ConditionTrue, v1alpha1.ReasonNodeReady, -10*time.Second), func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.ID, i.Status.Node = "op-1", &v1alpha1.NodeReference{Name: "a", UID: "uid-a"}
			i.Status.RestartedAt = at(-time.Hour)
		})
		f := newScheduled(t, nil, pool, cordoned, edited(works(), func(i *v1alpha1.WindowsInstance) { i.Name, i.Status.Node = "b", &v1alpha1.NodeReference{Name: "b"} }), cordonedNode(byController))
		now := clocktesting.NewFakePassiveClock(testNow)
		f.clock = now
		f.pass()
		if op := f.operation("b"); op != nil {
			t.Errorf("b has %+v while a is cordoned", op)
		}
		if got := f.blockedBy(poolKey{"ns", "p"}).text; got != "a: Its Node was left cordoned by a restart that failed, and is uncordoned if it is still ready at 2026-11-21T12:00:50Z.\n"+
			"b: Waits for a slot: a of pool p is out of service (its Node is cordoned); at most 1 may be at a time (spec.updateStrategy.rollingUpdate.maxUnavailable)." {
			t.Errorf("blocked by %s", got)
		}
		now.SetTime(testNow.Add(time.Minute))
		f.pass()
		if op := f.operation("a"); op.Type != v1alpha1.OperationUncordon || op.Cause != v1alpha1.CauseCameBack {
			t.Errorf("a has %+v", op)
		}
	})
}

// TestObserve: since when a Node is down it says itself, where the condition of its instance is older.
func TestObserve(t *testing.T) {
	node := newNode("a", "", corev1.ConditionUnknown)
	node.Status.Conditions[0].LastTransitionTime = *at(-time.Minute)
	down := condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour)
	for name, tt := range map[string]struct {
		instance *v1alpha1.WindowsInstance
		node     *corev1.Node
		want     time.Time
	}{
		"it is ready":                        {works(), newNode("a", "", corev1.ConditionTrue), time.Time{}},
		"it is down":                         {works(down), node, testNow.Add(-time.Hour)},
		"the instance does not say it yet":   {works(), node, testNow.Add(-time.Minute)},
		"it is gone, which is another thing": {works(), nil, time.Time{}},
	} {
		h := newHost(tt.instance)
		if h.observe(tt.node); !h.downSince.Equal(tt.want) {
			t.Errorf("%s: since %s", name, h.downSince)
		}
	}
}

// TestObserveInterrupted: the mark on its Node says that a configuration of the host was not completed, whoever recorded or canceled that, and
// whether something of ours has left it cordoned, or somebody wants it to be.
func TestObserveInterrupted(t *testing.T) {
	const drained = "op-1 (asked for by alice)"
	drains := func(change func(*v1alpha1.Operation)) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			op := v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationSucceeded}
			change(&op)
			i.Status.History = append([]v1alpha1.Operation{op}, i.Status.History...)
		}
	}
	all := drains(func(*v1alpha1.Operation) {})
	leaves := func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.NewTime(testNow)) }
	for _, tt := range []struct {
		by                    string
		edit                  func(*v1alpha1.WindowsInstance)
		interrupted, byOthers bool
		drained               bool
	}{
		{"op-1 Reconfigure (asked for by alice)", nil, true, true, true},
		{"op-1 Reconfigure (asked for by windows-controller)", nil, true, false, true},
		{byController, nil, false, false, true},
		{"op-1 Reboot (asked for by alice)", nil, false, true, true},
		{drained, all, false, true, true},
		{drained + " instead of " + byController, all, false, true, true},
		{drained, nil, false, true, false}, // it is not known any more whether that had its pods leave
		{drained, drains(func(op *v1alpha1.Operation) { op.Phase = v1alpha1.OperationFailed }), false, true, false},
		{drained, drains(func(op *v1alpha1.Operation) { op.Drain = &v1alpha1.DrainOptions{PodSelector: "app=a"} }), false, true, false},
		{drained, drains(func(op *v1alpha1.Operation) { op.ID = "op-0" }), false, true, false},
		{drained, drains(func(op *v1alpha1.Operation) { op.Type = v1alpha1.OperationUncordon }), false, true, false},
		{"", nil, false, true, false},
		{drained, leaves, false, false, true}, // it is the mark of its removal
		{"", leaves, false, true, false},
	} {
		i := works()
		if tt.edit != nil {
			tt.edit(i)
		}
		h := newHost(i)
		if h.observe(cordonedNode(tt.by)); h.interrupted != tt.interrupted || h.cordonedByOthers != tt.byOthers || h.drained != tt.drained || !h.cordoned {
			t.Errorf("%q: interrupted %t, by others %t, drained %t", tt.by, h.interrupted, h.cordonedByOthers, h.drained)
		}
		if h.observe(newNode("a", "", corev1.ConditionTrue)); h.interrupted || h.cordonedByOthers || h.drained || h.cordoned {
			t.Errorf("%q: it is still cordoned", tt.by)
		}
	}
}

// TestRepairOfACordonedNode: who has cordoned a Node, or asked for what has left it cordoned, may be at work on its host, which is not repaired
// meanwhile; that is said once it would be. One that something of ours has left cordoned is repaired.
func TestRepairOfACordonedNode(t *testing.T) {
	const drained = "op-1 (asked for by alice)"
	for by, repaired := range map[string]bool{
		byController: true, "op-1 Reconfigure (asked for by windows-controller)": true,
		"op-1 Reconfigure (asked for by alice)": false, "op-1 Reboot (asked for by alice)": false,
		"op-1 Reboot (asked for by alice), until the Node is ready after 2026-03-14T15:09:26Z": false,
		drained: false, drained + " instead of " + byController: false, "": false,
	} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1alpha1.WindowsNodePoolSpec{Remediation: &v1alpha1.PoolRemediation{}}}
				node := cordonedNode(by)
				node.UID, node.Status = "", newNode("a", "", corev1.ConditionFalse).Status
				f := newScheduled(t, nil, pool, works(condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour)), node)
				now := clocktesting.NewFakePassiveClock(testNow)
				f.clock = now
				f.pass()
				if got := f.blockedBy(poolKey{"ns", "p"}).text; !repaired && got != "" {
					t.Errorf("before it would be repaired, it is blocked by %q", got)
				}
				for _, after := range []time.Duration{maxPause, 2 * maxPause} { // it looks at the Node for a while
					now.SetTime(testNow.Add(after))
					f.pass()
				}
				if op := f.operation("a"); repaired != (op.Active() && op.Cause == v1alpha1.CauseNodeNotReady) {
					t.Errorf("it has %+v", op)
				}
				const says = "a: Its Node is not ready, and is not repaired (spec.remediation of pool p), because somebody has cordoned it and may be at work on the host. When that is done: kubectl windows uncordon NAME -n ns"
				if got := f.blockedBy(poolKey{"ns", "p"}).text; !repaired && got != says || repaired && got != "" {
					t.Errorf("blocked by %q", got)
				}
			})
		})
	}
}
