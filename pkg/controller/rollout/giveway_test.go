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
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestGiveWayToRepair: what the controller wants of a host anyway, and what may take hours before it disturbs the host, keeps it neither from being
// repaired nor its Node from being uncordoned.
func TestGiveWayToRepair(t *testing.T) {
	const repaired, uncordoned = "the Node is not ready and will be repaired.", "and will be uncordoned."
	operation := func(cause v1alpha1.OperationCause, running string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			op := &v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController, Cause: cause, Node: &v1alpha1.OperationNode{Name: "a"}, RequestedAt: *at(-2 * time.Hour)}
			if configures(cause) {
				op.Type, op.Revision, op.AdmittedImpact, op.Impact = v1alpha1.OperationReconfigure, "r2", v1alpha1.ImpactNone, v1alpha1.ImpactDrain
			}
			for _, name := range []string{v1alpha1.StepDownloadUpdates, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon} {
				state := v1alpha1.StepPending
				if name == running {
					state = v1alpha1.StepRunning
				}
				op.Steps = append(op.Steps, v1alpha1.OperationStep{Name: name, State: state})
			}
			i.Status.Operation = op
		}
	}
	const updates, renewal, waits = v1alpha1.CauseWindowsUpdates, v1alpha1.CauseVersionChanged, v1alpha1.StepWaitForSlot
	goesDown := condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -time.Hour)
	unconfirmed := condition(v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonConfirmationNeeded, -time.Hour)
	remediated := &v1alpha1.PoolRemediation{}
	down, ready := newNode("a", "", corev1.ConditionFalse), newNode("a", "", corev1.ConditionTrue)
	left := cordonedNode(byController)
	left.UID = ""
	for _, tt := range []struct {
		name        string
		remediation *v1alpha1.PoolRemediation
		node        *corev1.Node
		edit        []func(*v1alpha1.WindowsInstance)
		want        string
	}{
		{"updates of Windows wait", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(updates, waits)}, repaired},
		{"they are downloaded", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(updates, v1alpha1.StepDownloadUpdates)}, repaired},
		{"they are downloaded while somebody has to confirm what it is to have", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, unconfirmed, operation(updates, v1alpha1.StepDownloadUpdates)}, repaired},
		{"they are downloaded so, and a restart left it cordoned", nil, left, []func(*v1alpha1.WindowsInstance){unconfirmed, operation(updates, v1alpha1.StepDownloadUpdates)}, uncordoned},
		{"its Node is drained for them", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(updates, v1alpha1.StepCordon), func(i *v1alpha1.WindowsInstance) { i.Status.Operation.AdmittedImpact = v1alpha1.ImpactReboot }}, ""},
		{"what an annotation asks for waits", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(renewal, waits)}, repaired},
		{"a restart runs", remediated, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(v1alpha1.CauseRestartPending, v1alpha1.StepCordon)}, ""},
		{"the Node is ready", remediated, ready, []func(*v1alpha1.WindowsInstance){operation(updates, waits)}, ""},
		{"nobody wants it repaired", nil, down, []func(*v1alpha1.WindowsInstance){goesDown, operation(updates, waits)}, ""},
		{"a restart left it cordoned", nil, left, []func(*v1alpha1.WindowsInstance){operation(updates, waits)}, uncordoned},
		{"which an annotation asks something of", nil, left, []func(*v1alpha1.WindowsInstance){operation(renewal, waits)}, uncordoned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.UpdateStrategy.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 60}
				pool.Spec.Remediation = tt.remediation
				f := newScheduled(t, nil, pool, works(tt.edit...), tt.node.DeepCopy())
				now, key := clocktesting.NewFakePassiveClock(testNow), types.NamespacedName{Namespace: "ns", Name: "a"}
				f.clock = now
				for _, after := range []time.Duration{0, maxPause, 2 * maxPause} { // it looks at the Node for a while
					now.SetTime(testNow.Add(after))
					f.pass()
				}
				if got := f.GivesWayTo(key); !strings.HasSuffix(got, tt.want) || got != "" && tt.want == "" {
					t.Errorf("it gives way to %q, want %q", got, tt.want)
				}
				if op := f.operation("a"); op.ID != "op-1" || configures(op.Cause) && op.Admitted() {
					t.Errorf("it has %+v", op)
				}
				// Once it has ended, that is done first.
				i := f.get("a")
				i.Status.Operation.Phase, i.Status.Operation.FinishedAt = v1alpha1.OperationCanceled, new(metav1.NewTime(now.Now()))
				if err := f.client.Status().Update(t.Context(), i); err != nil {
					t.Fatal(err)
				}
				f.pass()
				if op := f.operation("a"); tt.want != "" && (!op.Active() || op.Cause != map[string]v1alpha1.OperationCause{repaired: v1alpha1.CauseNodeNotReady, uncordoned: v1alpha1.CauseCameBack}[tt.want]) {
					t.Errorf("next it has %+v", op)
				}
			})
		})
	}
}

// TestRepairBesidesHostsThatAreOff: hosts that somebody has paused, with their pool or by themselves, and switched off keep nobody's host from being repaired.
func TestRepairBesidesHostsThatAreOff(t *testing.T) {
	down := func(since time.Duration) func(*v1alpha1.WindowsInstance) {
		return condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -since)
	}
	for _, tt := range []struct {
		name               string
		pausesPool, pauses bool
		since              time.Duration
		want               bool
	}{
		{"nobody has paused them", false, false, 2 * time.Hour, false},
		{"they are paused", false, true, 2 * time.Hour, true},
		{"their pool is", true, false, 2 * time.Hour, true},
		{"they are paused, and went down as the other one did", false, true, time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				pool.Spec.Remediation = &v1alpha1.PoolRemediation{}
				other := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "q"}}
				other.Spec.Paused = tt.pausesPool
				objects := []client.Object{pool, other, works(down(time.Hour)), newNode("a", "", corev1.ConditionFalse)}
				for _, name := range []string{"b", "c"} {
					i := works(down(tt.since), func(i *v1alpha1.WindowsInstance) {
						i.Namespace, i.Name, i.UID, i.Spec.PoolRef.Name, i.Spec.Paused = "other", name, types.UID(name), "q", tt.pauses
						i.Status.Node.Name = name
					})
					objects = append(objects, i, newNode(name, "", corev1.ConditionFalse))
				}
				f := newScheduled(t, nil, objects...)
				now := clocktesting.NewFakePassiveClock(testNow)
				f.clock = now
				for _, after := range []time.Duration{0, maxPause, 2 * maxPause} { // it looks at the Nodes for a while
					now.SetTime(testNow.Add(after - 2*maxPause))
					f.pass()
				}
				if op := f.operation("a"); (op != nil) != tt.want {
					t.Errorf("it has %+v, and its pool says %q", op, f.blockedBy(poolKey{"ns", "p"}).text)
				}
			})
		})
	}
}

// TestUncordonBeforeRenewal: a Node that takes no pods, because a restart failed, does not wait for what an annotation asks for.
func TestUncordonBeforeRenewal(t *testing.T) {
	h := outdated("a", "", isUpToDate, func(h *host) { h.cordoned, h.uncordon, h.renew = true, true, true })
	d := decide(state{hosts: []host{h}, disruptions: 1, now: testNow, pools: map[poolKey]policy{}})
	if len(d.start) != 1 || d.start[0].cause != v1alpha1.CauseCameBack {
		t.Errorf("started are %+v", d.start)
	}
}
