// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func ready(name string) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{PoolRef: &v1alpha1.PoolReference{Name: "p"}},
		Status: v1alpha1.WindowsInstanceStatus{
			Phase: v1alpha1.InstanceReady, CurrentRevision: "r1", DesiredRevision: "r1",
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

func edited(instance *v1alpha1.WindowsInstance, edit func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
	edit(instance)
	return instance
}

func notReady(i *v1alpha1.WindowsInstance) {
	i.Status.Phase = v1alpha1.InstanceConnecting
	i.Status.Conditions[0].Status = metav1.ConditionFalse
}

func failed(i *v1alpha1.WindowsInstance) {
	notReady(i)
	i.Status.Phase = v1alpha1.InstanceFailed
}

func updateFailed(i *v1alpha1.WindowsInstance) {
	i.Status.DesiredRevision = "r2"
	i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateFailed})
}

// undetermined has nobody know what a host is to have.
func undetermined(i *v1alpha1.WindowsInstance) {
	i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonInputsMissing, LastTransitionTime: *at(-time.Minute),
		Message: "The desired configuration of the host cannot be worked out: ConfigMap x is missing.",
	})
}

func deleting(i *v1alpha1.WindowsInstance) {
	now := metav1.NewTime(time.Unix(1, 0))
	i.DeletionTimestamp, i.Finalizers = &now, []string{"x"}
}

func synced(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionSourceSynced, Status: status, Reason: reason, Message: message}}
}

func TestComputeStatus(t *testing.T) {
	fromConfigMap := v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: "p"}}
	byHand := v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}
	good := synced(metav1.ConditionTrue, v1alpha1.ReasonSynced, "")

	type counts struct{ Desired, Total, Ready, Updated, Unavailable int32 }
	tests := []struct {
		name       string
		source     v1alpha1.PoolSource
		paused     bool
		desired    int32
		conditions []metav1.Condition
		instances  []*v1alpha1.WindowsInstance

		want         counts
		wantPhase    v1alpha1.WindowsNodePoolPhase
		wantDegraded string // reason
		wantMessage  string // part of the message of Degraded
	}{
		{
			name: "not looked at by the source", source: fromConfigMap,
			wantPhase: v1alpha1.PoolPending, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "no hosts wanted", source: fromConfigMap, conditions: good,
			wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "all ready", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{ready("a"), ready("b")},
			want: counts{2, 2, 2, 2, 0}, wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "one is not ready", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{ready("a"), edited(ready("b"), notReady)},
			want: counts{2, 2, 1, 2, 1}, wantPhase: v1alpha1.PoolProgressing, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "one does not exist yet", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{ready("a")},
			want: counts{2, 1, 1, 1, 1}, wantPhase: v1alpha1.PoolProgressing, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "more than wanted", source: fromConfigMap, conditions: good, desired: 1, instances: []*v1alpha1.WindowsInstance{ready("a"), ready("b")},
			want: counts{1, 2, 2, 2, 0}, wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "an update failed and the host works", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{ready("a"), edited(ready("b"), updateFailed)},
			want: counts{2, 2, 2, 1, 0}, wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonUpdatesFailed, wantMessage: "Instances whose update failed, and which work as before: b.",
		},
		{
			name: "an update failed, and another host needs somebody", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{edited(ready("a"), failed), edited(ready("b"), updateFailed)},
			want: counts{2, 2, 1, 1, 1}, wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonInstancesFailed, wantMessage: "Instances whose update failed, and which work as before: b.",
		},
		{
			name: "one is on its way out", source: fromConfigMap, conditions: good, desired: 1, instances: []*v1alpha1.WindowsInstance{edited(ready("a"), deleting)},
			want: counts{1, 1, 0, 1, 1}, wantPhase: v1alpha1.PoolProgressing, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "no revision is none that is up to date", source: fromConfigMap, conditions: good, desired: 2,
			instances: []*v1alpha1.WindowsInstance{
				edited(ready("a"), func(i *v1alpha1.WindowsInstance) {
					i.Status.CurrentRevision, i.Status.DesiredRevision = "", ""
				}),
				edited(ready("b"), func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r2" }),
			},
			want: counts{2, 2, 2, 0, 0}, wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "bad entries", source: fromConfigMap, desired: 1, instances: []*v1alpha1.WindowsInstance{ready("a")},
			conditions: synced(metav1.ConditionFalse, v1alpha1.ReasonInvalidEntries, "entry x: bad"),
			want:       counts{1, 1, 1, 1, 0}, wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonInvalidEntries, wantMessage: "entry x: bad",
		},
		{
			name: "bad entries and failed hosts", source: fromConfigMap, desired: 1, instances: []*v1alpha1.WindowsInstance{edited(ready("a"), failed)},
			conditions: synced(metav1.ConditionFalse, v1alpha1.ReasonInvalidEntries, "entry x: bad"),
			want:       counts{1, 1, 0, 1, 1}, wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonInvalidEntries, wantMessage: "entry x: bad\nInstances that need attention: a. See their conditions.",
		},
		{
			name: "source not found", source: fromConfigMap, conditions: synced(metav1.ConditionFalse, v1alpha1.ReasonSourceNotFound, "none"),
			wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonSourceNotFound, wantMessage: "none",
		},
		{
			name: "confirmation needed, and paused", source: fromConfigMap, paused: true, conditions: synced(metav1.ConditionFalse, v1alpha1.ReasonConfirmationNeeded, "run kubectl"),
			wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonConfirmationNeeded, wantMessage: "run kubectl",
		},
		{
			name: "failed hosts", source: fromConfigMap, conditions: good, desired: 2, instances: []*v1alpha1.WindowsInstance{edited(ready("b"), failed), edited(ready("a"), failed)},
			want: counts{2, 2, 0, 2, 2}, wantPhase: v1alpha1.PoolDegraded, wantDegraded: v1alpha1.ReasonInstancesFailed, wantMessage: "a, b.",
		},
		{
			name: "a host that failed and goes", source: fromConfigMap, conditions: good, instances: []*v1alpha1.WindowsInstance{edited(edited(ready("a"), failed), deleting)},
			want: counts{0, 1, 0, 1, 0}, wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "paused", source: fromConfigMap, paused: true, conditions: good, desired: 1, instances: []*v1alpha1.WindowsInstance{edited(ready("a"), notReady)},
			want: counts{1, 1, 0, 1, 1}, wantPhase: v1alpha1.PoolPaused, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "made by hand", source: byHand, instances: []*v1alpha1.WindowsInstance{ready("a"), edited(ready("b"), notReady), edited(ready("c"), deleting)},
			want: counts{2, 3, 1, 3, 1}, wantPhase: v1alpha1.PoolProgressing, wantDegraded: v1alpha1.ReasonAsExpected,
		},
		{
			name: "made by hand, none yet", source: byHand,
			wantPhase: v1alpha1.PoolReady, wantDegraded: v1alpha1.ReasonAsExpected,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 3},
				Spec:       v1alpha1.WindowsNodePoolSpec{Source: tt.source, Paused: tt.paused},
				Status:     v1alpha1.WindowsNodePoolStatus{DesiredReplicas: tt.desired, Conditions: tt.conditions},
			}
			got := computeStatus(pool, tt.instances, holdup{}, nil, nil, testNow)
			if diff := cmp.Diff(tt.want, counts{got.DesiredReplicas, got.Replicas, got.ReadyReplicas, got.UpdatedReplicas, got.UnavailableReplicas}); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if got.Phase != tt.wantPhase || got.ObservedGeneration != 3 {
				t.Errorf("phase %s, observedGeneration %d, want %s, 3", got.Phase, got.ObservedGeneration, tt.wantPhase)
			}
			degraded := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionDegraded)
			if degraded == nil || degraded.Reason != tt.wantDegraded || (degraded.Status == metav1.ConditionTrue) == (tt.wantDegraded == v1alpha1.ReasonAsExpected || tt.wantDegraded == v1alpha1.ReasonUpdatesFailed) {
				t.Fatalf("Degraded is %+v, want reason %s", degraded, tt.wantDegraded)
			}
			if degraded.Message == "" || !strings.Contains(degraded.Message, tt.wantMessage) {
				t.Errorf("Degraded has message %q, want %q in it", degraded.Message, tt.wantMessage)
			}
			if got := meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionPaused); got != tt.paused {
				t.Errorf("Paused is %v, want %v", got, tt.paused)
			}
			for _, c := range got.Conditions {
				if c.ObservedGeneration != 3 {
					t.Errorf("%s is about generation %d", c.Type, c.ObservedGeneration)
				}
			}
			if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionPaused); c.Reason != map[bool]string{true: v1alpha1.ReasonPaused, false: v1alpha1.ReasonNotPaused}[tt.paused] || !tt.paused && c.Status != metav1.ConditionFalse {
				t.Errorf("Paused is %s, %s", c.Status, c.Reason)
			}
			if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionSourceSynced); c != nil && c.Reason != v1alpha1.ReasonSynced {
				t.Errorf("SourceSynced has reason %s", c.Reason)
			}
			// A pool made by hand has no other controller that would say so.
			if got := meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionSourceSynced); got != (tt.source.Instances != nil) {
				t.Errorf("SourceSynced from here: %v", got)
			}
		})
	}
}

// TestUpdating: whether all have what is desired, and whether it goes on by itself.
func TestUpdating(t *testing.T) {
	outdated := edited(ready("b"), func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r2" })
	runs := func(does v1alpha1.OperationType, cause v1alpha1.OperationCause) *v1alpha1.WindowsInstance {
		return edited(ready("b"), func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: "b"}
			i.Status.Operation = &v1alpha1.Operation{Type: does, Phase: v1alpha1.OperationRunning, Cause: cause}
		})
	}
	for _, tt := range []struct {
		name              string
		paused            bool
		host              *v1alpha1.WindowsInstance
		held              holdup
		updated, updating string // reasons
	}{
		{"all are updated", false, ready("b"), holdup{}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonAllUpdated},
		{"one is being updated", false, runs(v1alpha1.OperationReconfigure, ""), holdup{}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonUpdateInProgress},
		{"one is being restarted", false, runs(v1alpha1.OperationReboot, v1alpha1.CauseRestartPending), holdup{}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonUpdateInProgress},
		{"a person restarts one", false, runs(v1alpha1.OperationReboot, ""), holdup{}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonAllUpdated},
		{"one waits for its turn", false, outdated, holdup{text: "b waits", moves: true}, v1alpha1.ReasonUpdateOutstanding, v1alpha1.ReasonUpdateInProgress},
		{"one waits for somebody", false, outdated, holdup{text: "b waits", stays: true}, v1alpha1.ReasonUpdateOutstanding, v1alpha1.ReasonUpdateBlocked},
		{"what it is to have cannot be worked out", false, edited(ready("b"), undetermined), holdup{}, v1alpha1.ReasonUpdateOutstanding, v1alpha1.ReasonUpdateOutstanding},
		{"one waits to be removed", false, ready("b"), holdup{text: "c waits"}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonAllUpdated},
		{"the pool is paused", true, outdated, holdup{}, v1alpha1.ReasonUpdateOutstanding, v1alpha1.ReasonPaused},
		{"one cannot be updated", false, outdated, holdup{}, v1alpha1.ReasonUpdateOutstanding, v1alpha1.ReasonUpdateOutstanding},
		{"one that goes does not count", false, edited(outdated.DeepCopy(), deleting), holdup{}, v1alpha1.ReasonAllUpdated, v1alpha1.ReasonAllUpdated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Paused: tt.paused}}
			got := computeStatus(pool, []*v1alpha1.WindowsInstance{ready("a"), tt.host}, tt.held, nil, nil, testNow)
			updated, updating := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionUpdated), meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionUpdating)
			if updated.Reason != tt.updated || updating.Reason != tt.updating || got.BlockedBy != tt.held.text ||
				(updated.Status == metav1.ConditionTrue) != (tt.updated == v1alpha1.ReasonAllUpdated) || (updating.Status == metav1.ConditionTrue) != (tt.updating == v1alpha1.ReasonUpdateInProgress) {
				t.Errorf("got %+v, %+v", updated, updating)
			}
		})
	}
}

// TestDegradedByHosts: whatever stops a pool needs somebody, who learns which hosts it is about.
func TestDegradedByHosts(t *testing.T) {
	down := condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -awayPatience)
	named := func(name string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
		return edited(works(edit...), func(i *v1alpha1.WindowsInstance) { i.Name = name })
	}
	updated := func(phase v1alpha1.OperationPhase, impact v1alpha1.ChangeImpact) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{
				ID: "reconfigure-1", Type: v1alpha1.OperationReconfigure, Phase: phase, Origin: v1alpha1.OriginController, Revision: "r2", Impact: impact, AdmittedImpact: impact,
				HostChanged: true, Node: &v1alpha1.OperationNode{Name: i.Name}, FinishedAt: at(-2 * time.Minute),
			}
		}
	}
	restarted := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{
			ID: "reboot-1", Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationFailed, Origin: v1alpha1.OriginController, Cause: v1alpha1.CauseRestartRequested, BootID: "1", FinishedAt: at(-2 * time.Minute),
		}
	}
	lacks := func(i *v1alpha1.WindowsInstance) {
		i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{Failed: []v1alpha1.FailedUpdate{{Name: "KB1", Security: true}}}
	}
	repaired := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{
			ID: "repair-1", Type: v1alpha1.OperationRestartServices, Phase: v1alpha1.OperationSucceeded, Origin: v1alpha1.OriginController, Cause: v1alpha1.CauseNodeNotReady,
			RequestedAt: *at(-3 * time.Minute), FinishedAt: at(-2 * time.Minute), Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepRestartServices, State: v1alpha1.StepSucceeded}},
		}
	}
	again := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = append([]v1alpha1.Operation{*i.Status.Operation}, i.Status.History...)
		i.Status.Operation = &v1alpha1.Operation{ID: "reconfigure-2", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController}
	}
	harmless := updated(v1alpha1.OperationFailed, v1alpha1.ImpactNone)
	for _, tt := range []struct {
		name         string
		spec         v1alpha1.WindowsNodePoolSpec
		hosts        []*v1alpha1.WindowsInstance
		reason, want string
	}{
		{"all work", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("a"), named("b", updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain))}, v1alpha1.ReasonAsExpected, ""},
		{"a Node is down by itself", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("a", down)}, v1alpha1.ReasonAsExpected, ""},
		{
			"one went down after its update", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("a"), named("b", down, updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain))}, v1alpha1.ReasonHostsBroken,
			"Operation reconfigure-1 changed host b and its Node is not ready any more. No further host is updated or restarted while more than 0 are broken (spec.updateStrategy.rollingUpdate.maxFailures). Find out why: kubectl windows describe b -n ns",
		},
		{
			"as many as may", v1alpha1.WindowsNodePoolSpec{UpdateStrategy: v1alpha1.PoolUpdateStrategy{RollingUpdate: v1alpha1.PoolRollingUpdate{MaxFailures: new(int32(1))}}},
			[]*v1alpha1.WindowsInstance{named("b", down, updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain))}, v1alpha1.ReasonHostsBroken, "its Node is not ready any more. Find out why",
		},
		{
			"one went down a moment ago", v1alpha1.WindowsNodePoolSpec{},
			[]*v1alpha1.WindowsInstance{named("b", condition(v1alpha1.ConditionNodeReady, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, -40*time.Second), updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain))}, v1alpha1.ReasonAsExpected, "",
		},
		{"one is tried again that failed", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("b", down, updated(v1alpha1.OperationFailed, v1alpha1.ImpactDrain), again)}, v1alpha1.ReasonInstancesFailed, "attention: b. See their conditions."},
		{"one that goes", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("b", down, updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain), deleting)}, v1alpha1.ReasonAsExpected, ""},
		{"one whose phase says it", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("b", down, updated(v1alpha1.OperationSucceeded, v1alpha1.ImpactDrain), func(i *v1alpha1.WindowsInstance) { i.Status.Phase = v1alpha1.InstanceFailed })}, v1alpha1.ReasonInstancesFailed, "attention: b. See their conditions."},
		{"two do not come back from a restart", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("c", down, restarted), named("b", down, restarted)}, v1alpha1.ReasonHostsBroken, "Updates or restarts broke 2 hosts: b, c. No further host"},
		{
			"everything was tried", v1alpha1.WindowsNodePoolSpec{Remediation: &v1alpha1.PoolRemediation{Actions: []v1alpha1.PoolRemediationAction{v1alpha1.RemediateRestartServices}}},
			[]*v1alpha1.WindowsInstance{named("b", down, repaired)}, v1alpha1.ReasonRemediationExhausted, "spec.remediation has tried everything, and the Nodes of these hosts are not ready: b. Find out why: kubectl windows describe b -n ns",
		},
		{
			"an update that should cost nothing fails on many", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("d", harmless), named("c", harmless), named("b", harmless), named("a", harmless)},
			v1alpha1.ReasonUpdatesStopped, "The update failed on more than 3 hosts, and reaches no further one: a, b, c, d. Find out why: kubectl windows describe a -n ns",
		},
		{"on a few", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("c", harmless), named("b", harmless), named("a", harmless)}, v1alpha1.ReasonAsExpected, ""},
		{
			"updates of Windows fail", v1alpha1.WindowsNodePoolSpec{WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: v1alpha1.InstallSecurity}}, []*v1alpha1.WindowsInstance{named("b", lacks), named("a")},
			v1alpha1.ReasonUpdatesStopped, "Updates of Windows could not be installed on more than 0 hosts (spec.updateStrategy.rollingUpdate.maxFailures), and reach no further one: b. Find out why: kubectl windows describe b -n ns",
		},
		{
			"what hosts are to have cannot be worked out", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("c", undetermined), named("b", undetermined), named("a")}, v1alpha1.ReasonInputsMissing,
			"Something is missing or wrong that these hosts are configured with, so that they stay as they are: b, c. For example b: The desired configuration of the host cannot be worked out: ConfigMap x is missing.",
		},
		{"that nobody wants", v1alpha1.WindowsNodePoolSpec{}, []*v1alpha1.WindowsInstance{named("b", lacks)}, v1alpha1.ReasonAsExpected, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: tt.spec}
			status := computeStatus(pool, tt.hosts, holdup{updates: true}, nil, nil, testNow)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
			if c == nil || c.Reason != tt.reason || !strings.Contains(c.Message, tt.want) || (c.Status == metav1.ConditionTrue) != (tt.want != "") || (status.Phase == v1alpha1.PoolDegraded) != (tt.want != "") {
				t.Errorf("got %+v, phase %s", c, status.Phase)
			}
		})
	}
}

// TestLackingUpdates: hosts that others do not wait for are named, and do not degrade the pool.
func TestLackingUpdates(t *testing.T) {
	named := func(name string, edit ...func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
		return edited(works(edit...), func(i *v1alpha1.WindowsInstance) { i.Name = name })
	}
	tried := v1alpha1.FailedUpdate{Name: "KB1", Security: true}
	interactive := v1alpha1.FailedUpdate{Name: "KB1", Security: true, Interactive: true}
	two := "Instances on which updates of Windows could not be installed, and which work as before: b, c. Find out why: kubectl windows describe b -n ns"
	for _, tt := range []struct {
		name        string
		install     v1alpha1.WindowsUpdatesInstall
		maxFailures int32
		othersWait  bool
		lacks       v1alpha1.FailedUpdate
		reason      string
		want        string
	}{
		{"no other host wants them", v1alpha1.InstallSecurity, 0, false, tried, v1alpha1.ReasonUpdatesFailed, two},
		{"as many as may", v1alpha1.InstallSecurity, 2, true, tried, v1alpha1.ReasonUpdatesFailed, two},
		{"only a person can install them", v1alpha1.InstallSecurity, 0, true, interactive, v1alpha1.ReasonUpdatesFailed, two},
		{"the pool wants none", v1alpha1.InstallNone, 0, false, tried, v1alpha1.ReasonAsExpected, "Nothing needs your attention."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			pool.Spec.WindowsUpdates.Install, pool.Spec.UpdateStrategy.RollingUpdate.MaxFailures = tt.install, &tt.maxFailures
			lacks := func(i *v1alpha1.WindowsInstance) {
				i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{Failed: []v1alpha1.FailedUpdate{tt.lacks}}
			}
			status := computeStatus(pool, []*v1alpha1.WindowsInstance{named("c", lacks), named("a"), named("b", lacks), named("d", lacks, deleting)}, holdup{updates: tt.othersWait}, nil, nil, testNow)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != tt.reason || c.Message != tt.want || status.Phase == v1alpha1.PoolDegraded {
				t.Errorf("got %+v, phase %s", c, status.Phase)
			}
		})
	}
}

// TestNotRestarted: hosts that could not be restarted, or that cannot search for updates of Windows, are named with the reason, and do not degrade the
// pool: they work.
func TestNotRestarted(t *testing.T) {
	const drain = "Timeout: 1 of 3 pods have not left: shop/web-0 (PodDisruptionBudget web): Cannot evict pod as it would violate the pod's disruption budget. The Node takes pods again."
	tried := func(cause v1alpha1.OperationCause, phase v1alpha1.OperationPhase) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			did(v1alpha1.OperationReboot, cause, phase, -time.Hour)(i)
			i.Status.Operation.Message, i.Status.Operation.BootID = drain, ""
			i.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepDrain, State: v1alpha1.StepFailed}, {Name: v1alpha1.StepInstallUpdates, State: v1alpha1.StepSkipped}}
		}
	}
	lacks := waitingFor(1, 1)
	noSearch := func(since time.Duration) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: at(-since), Message: "The server cannot be reached (0x80072ee2). Nothing was found."}
		}
	}
	const (
		notRestarted = "Instances that could not be restarted, for updates of Windows or because the pool asks for it, and which work as before: b. For example b: Timeout: 1 of 3 pods have not left: shop/web-0 (PodDisruptionBudget web): Cannot evict pod as it would violate the pod's disruption budget. Find out why: kubectl windows describe b -n ns"
		notSearched  = "Instances that have not been able to search for updates of Windows for more than a day: b. For example b: The server cannot be reached (0x80072ee2). Find out why: kubectl windows describe b -n ns"
		nothing      = "Nothing needs your attention."
	)
	updates, requested, pending := v1alpha1.CauseWindowsUpdates, v1alpha1.CauseRestartRequested, v1alpha1.CauseRestartPending
	waitsForOne := condition(v1alpha1.ConditionRebootRequired, metav1.ConditionTrue, v1alpha1.ReasonRebootPending, 0)
	for _, tt := range []struct {
		name    string
		restart v1alpha1.PoolRestarts
		install v1alpha1.WindowsUpdatesInstall
		edit    []func(*v1alpha1.WindowsInstance)
		want    string
	}{
		{"updates", v1alpha1.PoolRestarts{}, v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){lacks, tried(updates, v1alpha1.OperationFailed)}, notRestarted},
		{"also while it is tried again", v1alpha1.PoolRestarts{}, v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){lacks, tried(updates, v1alpha1.OperationFailed), func(i *v1alpha1.WindowsInstance) {
			i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReboot, Cause: updates, Phase: v1alpha1.OperationRunning}
		}}, notRestarted},
		{"updates that the pool does not want any more", v1alpha1.PoolRestarts{}, v1alpha1.InstallNone, []func(*v1alpha1.WindowsInstance){lacks, tried(updates, v1alpha1.OperationFailed)}, nothing},
		{"the next attempt succeeded", v1alpha1.PoolRestarts{}, v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){lacks, tried(updates, v1alpha1.OperationSucceeded)}, nothing},
		{"a restart that somebody has asked for", v1alpha1.PoolRestarts{After: at(-2 * time.Hour)}, "", []func(*v1alpha1.WindowsInstance){tried(requested, v1alpha1.OperationFailed)}, notRestarted},
		{"and asks for again", v1alpha1.PoolRestarts{After: at(0)}, "", []func(*v1alpha1.WindowsInstance){tried(requested, v1alpha1.OperationFailed)}, nothing},
		{"it was restarted since", v1alpha1.PoolRestarts{After: at(-2 * time.Hour)}, "", []func(*v1alpha1.WindowsInstance){tried(requested, v1alpha1.OperationFailed), func(i *v1alpha1.WindowsInstance) { i.Status.RestartedAt = at(-time.Minute) }}, nothing},
		{"a restart that Windows waits for", v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}, "", []func(*v1alpha1.WindowsInstance){tried(pending, v1alpha1.OperationFailed), waitsForOne}, notRestarted},
		{"and does not wait for any more", v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}, "", []func(*v1alpha1.WindowsInstance){tried(pending, v1alpha1.OperationFailed)}, nothing},
		{"no search for a day", v1alpha1.PoolRestarts{}, v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){noSearch(24 * time.Hour)}, notSearched},
		{"for less", v1alpha1.PoolRestarts{}, v1alpha1.InstallSecurity, []func(*v1alpha1.WindowsInstance){noSearch(23 * time.Hour)}, nothing},
		{"that the pool does not want", v1alpha1.PoolRestarts{}, v1alpha1.InstallNone, []func(*v1alpha1.WindowsInstance){noSearch(48 * time.Hour)}, nothing},
		{"never since it was made", v1alpha1.PoolRestarts{}, v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){noSearch(0), func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates.SearchedAt, i.CreationTimestamp = nil, *at(-25 * time.Hour)
		}}, notSearched},
		{"it goes", v1alpha1.PoolRestarts{}, v1alpha1.InstallAll, []func(*v1alpha1.WindowsInstance){noSearch(48 * time.Hour), deleting}, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			pool.Spec.WindowsUpdates.Install, pool.Spec.Restarts = tt.install, tt.restart
			b := edited(works(tt.edit...), func(i *v1alpha1.WindowsInstance) { i.Name = "b" })
			status := computeStatus(pool, []*v1alpha1.WindowsInstance{works(), b}, holdup{}, nil, nil, testNow)
			reason := v1alpha1.ReasonUpdatesFailed
			if tt.want == nothing {
				reason = v1alpha1.ReasonAsExpected
			}
			if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse || c.Reason != reason || c.Message != tt.want {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestManyFailedInstances(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
	var instances []*v1alpha1.WindowsInstance
	for i := range 1000 {
		instances = append(instances, edited(ready(fmt.Sprintf("host-%03d", i)), failed))
	}
	status := computeStatus(pool, instances, holdup{}, nil, nil, testNow)
	degraded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	if !strings.Contains(degraded.Message, "host-009 and 990 more") {
		t.Errorf("message %q", degraded.Message)
	}
}

// TestComputeStatusRolledBack: hosts that a rollback keeps from the revision of their pool are not updated, however much they
// have what is desired of them, and somebody has to act.
func TestComputeStatusRolledBack(t *testing.T) {
	with := func(name, revision string) *v1alpha1.WindowsInstance {
		return edited(ready(name), func(i *v1alpha1.WindowsInstance) { i.Status.PoolRevision = revision })
	}
	pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
	pool.Namespace, pool.Name = "ns", "p"
	back := &v1alpha1.PoolRollback{Revision: "p-2", To: "p-1", Instances: []string{"c"}, Message: "Revision p-2 broke c."}
	status := computeStatus(pool, []*v1alpha1.WindowsInstance{with("a", "p-2"), with("b", "p-1"), with("c", "p-2")}, holdup{text: "b waits", stays: true}, back, nil, testNow)
	if status.UpdatedReplicas != 1 || status.ReadyReplicas != 3 || status.Phase != v1alpha1.PoolDegraded {
		t.Errorf("got %+v", status)
	}
	for condition, want := range map[string][2]string{
		v1alpha1.ConditionUpdated:  {v1alpha1.ReasonRolledBack, "1 of 3 hosts of the pool have revision p-2"},
		v1alpha1.ConditionDegraded: {v1alpha1.ReasonRolledBack, "Revision p-2 broke c. Those hosts go back to the revision that they worked with"},
		v1alpha1.ConditionUpdating: {v1alpha1.ReasonUpdateBlocked, "blockedBy"},
	} {
		if c := meta.FindStatusCondition(status.Conditions, condition); c.Reason != want[0] || !strings.Contains(c.Message, want[1]) {
			t.Errorf("%s: %+v", condition, c)
		}
	}
}

// TestRevisionLost: whoever has hosts go back by themselves learns that there is nothing to go back to, before an update breaks them.
func TestRevisionLost(t *testing.T) {
	k := newKeeper(t)
	worked, newest := k.keep("1"), k.keep("2").Name
	for name, tt := range map[string]struct {
		onFailure v1alpha1.PoolFailurePolicy
		current   string
		deleted   bool
		want      string
	}{
		"it is there":                       {v1alpha1.FailureRollback, worked.Name, false, ""},
		"it is gone":                        {v1alpha1.FailureRollback, worked.Name, true, worked.Name},
		"it is gone, and nobody needs it":   {v1alpha1.FailureStop, worked.Name, true, ""},
		"all hosts work with the newest":    {v1alpha1.FailureRollback, newest, true, ""},
		"no hosts have worked yet together": {v1alpha1.FailureRollback, "", true, ""},
	} {
		if exists := k.read(worked.Name) != nil; exists && tt.deleted {
			if err := k.c.Delete(t.Context(), worked); err != nil {
				t.Fatal(err)
			}
		} else if !exists && !tt.deleted {
			worked.ResourceVersion = ""
			if err := k.c.Create(t.Context(), worked); err != nil {
				t.Fatal(err)
			}
		}
		k.pool.Spec.UpdateStrategy.RollingUpdate.OnFailure, k.pool.Status.CurrentRevision = tt.onFailure, tt.current
		to, lost, err := k.goesBackTo(t.Context(), k.pool, newest)
		if goesBack := name == "it is there"; goesBack != (to != "") {
			t.Errorf("%s: it goes back to %q", name, to)
		}
		if err != nil || lost != tt.want {
			t.Errorf("%s: %q is lost, want %q: %v", name, lost, tt.want, err)
		}
		status := computeStatus(k.pool, nil, holdup{}, nil, troublesOfRevisions(k.pool, "", nil, lost), testNow)
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
		if told := c.Reason == v1alpha1.ReasonRevisionLost && strings.Contains(c.Message, worked.Name); told != (tt.want != "") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestRevisionNotKept: that the template cannot be kept is said with the reason, unless that is over in a moment.
func TestRevisionNotKept(t *testing.T) {
	revisions := schema.GroupResource{Group: appsv1.GroupName, Resource: "controllerrevisions"}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, tt := range []struct {
		name    string
		err     error
		refused string
		want    string
		reason  string
	}{
		{"a quota", fmt.Errorf("keeping: %w", apierrors.NewForbidden(revisions, "p-1", errors.New("exceeded quota: q"))), "", "exceeded quota: q", v1alpha1.ReasonRevisionNotKept},
		{"a webhook that does not answer", apierrors.NewInternalError(errors.New("failed calling webhook")), "", "failed calling webhook", v1alpha1.ReasonRevisionNotKept},
		{"besides an undo that is refused", apierrors.NewForbidden(revisions, "p-1", errors.New("exceeded quota: q")), "Not undone.", "exceeded quota: q", v1alpha1.ReasonUndoRefused},
		{"one of its name that is not ours", fmt.Errorf("keeping: %w", apierrors.NewAlreadyExists(revisions, "p-1")), "", "kubectl delete controllerrevisions.apps p-1 -n ns.", v1alpha1.ReasonRevisionNotKept},
		{"somebody else was faster", apierrors.NewConflict(revisions, "p-1", errors.New("changed")), "", "", v1alpha1.ReasonAsExpected},
		{"the API server has no time", apierrors.NewServerTimeout(revisions, "create", 1), "", "", v1alpha1.ReasonAsExpected},
		{"it is kept", nil, "", "", v1alpha1.ReasonAsExpected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := computeStatus(pool, nil, holdup{}, nil, troublesOfRevisions(pool, tt.refused, tt.err, ""), testNow)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
			if c == nil || c.Reason != tt.reason || tt.want != "" && !strings.Contains(c.Message, tt.want) || (status.Phase == v1alpha1.PoolDegraded) != (tt.reason != v1alpha1.ReasonAsExpected) {
				t.Errorf("got %+v, phase %s", c, status.Phase)
			}
		})
	}
}
