// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestDecisive: it is decided again when something changes that is decided by. Nothing else asks for it, so that hosts would wait without an end.
func TestDecisive(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.WindowsInstance)
		want   bool
	}{
		"nothing":                            {func(*v1alpha1.WindowsInstance) {}, false},
		"the progress of its operation":      {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Message = "more" }, false},
		"a condition says it in other words": {func(i *v1alpha1.WindowsInstance) { i.Status.Conditions[0].Message = "more" }, false},
		"the end of its operation":           {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Phase = v1alpha1.OperationSucceeded }, true},
		"another operation":                  {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.ID = "reconfigure-2" }, true},
		"no operation":                       {func(i *v1alpha1.WindowsInstance) { i.Status.Operation = nil }, true},
		"what is desired":                    {func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "c" }, true},
		"what it has":                        {func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = "b" }, true},
		"what a condition says":              {func(i *v1alpha1.WindowsInstance) { i.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"that its spec was seen":             {func(i *v1alpha1.WindowsInstance) { i.Status.ObservedGeneration++ }, true},
		"with which revision it worked":      {func(i *v1alpha1.WindowsInstance) { i.Status.PoolRevision = "p-2" }, true},
		"that its Node went down":            {func(i *v1alpha1.WindowsInstance) { i.Status.NodeNotReadyTimes = []metav1.Time{metav1.Now()} }, true},
		"updates of Windows wait":            {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.Security++ }, true},
		"an update failed":                   {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.Failed = nil }, true},
		"when it is tried again":             {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.Failed[0].RetryAt = metav1.Unix(9, 0) }, true},
		"its first search for updates":       {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.SearchedAt = nil }, true},
		"another search for updates":         {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.SearchedAt = new(metav1.Unix(9, 0)) }, false},
		"why an update failed":               {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.Failed[0].Message = "more" }, false},
		"that a search failed":               {func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.Message = "more" }, false},
		"the first step of its operation":    {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Steps[0].State = v1alpha1.StepSucceeded }, false},
		"that it waits for a slot":           {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Steps[1].State = v1alpha1.StepRunning }, true},
		"how much of a step is done":         {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Progress = &v1alpha1.OperationProgress{Done: 1} }, false},
		"which pods do not leave": {func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.BlockedBy[0].Name, i.Status.Operation.BlockedBy[0].Message = "db-2", "more"
		}, false},
		"which budget keeps them": {func(i *v1alpha1.WindowsInstance) { i.Status.Operation.BlockedBy[0].Budget = "web" }, true},
		"its phase":               {func(i *v1alpha1.WindowsInstance) { i.Status.Phase = v1alpha1.InstanceReady }, false},
		"its spec":                {func(i *v1alpha1.WindowsInstance) { i.Generation++ }, true},
		"its deletion":            {func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "win-1", UID: "uid", Generation: 1},
				Status: v1alpha1.WindowsInstanceStatus{
					CurrentRevision: "a", DesiredRevision: "b", Node: &v1alpha1.NodeReference{Name: "win-1"},
					WindowsUpdates: &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(metav1.Unix(1, 0)), Pending: 1, Failed: []v1alpha1.FailedUpdate{{Name: "KB1", RetryAt: metav1.Unix(5, 0)}}},
					Conditions:     []metav1.Condition{{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: "NodeReady"}},
					Operation: &v1alpha1.Operation{
						ID: "reconfigure-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController,
						Revision: "a", Impact: v1alpha1.ImpactDrain, AdmittedImpact: v1alpha1.ImpactNone, Node: &v1alpha1.OperationNode{Name: "win-1"},
						BlockedBy: []v1alpha1.BlockedPod{{Namespace: "shop", Name: "db-1", Budget: "db", Message: "not now"}},
						Steps:     []v1alpha1.OperationStep{{Name: v1alpha1.StepConnect, State: v1alpha1.StepRunning}, {Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepPending}},
					},
				},
			}
			after := before.DeepCopy()
			tt.change(after)
			if got := decisive.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

// TestPoolStatusChanges: bounds go by the size of a pool, and hosts by whether its newest revision is the one that was rolled back.
func TestPoolStatusChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.WindowsNodePoolStatus)
		want   bool
	}{
		"nothing":             {func(*v1alpha1.WindowsNodePoolStatus) {}, false},
		"how far it is":       {func(s *v1alpha1.WindowsNodePoolStatus) { s.UpdatedReplicas, s.BlockedBy = 2, "more" }, false},
		"its size":            {func(s *v1alpha1.WindowsNodePoolStatus) { s.DesiredReplicas = 2 }, true},
		"its newest revision": {func(s *v1alpha1.WindowsNodePoolStatus) { s.UpdateRevision = "p-2" }, true},
		"removals":            {func(s *v1alpha1.WindowsNodePoolStatus) { s.RecentRemovals = make([]v1alpha1.PoolRemoval, 1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := &v1alpha1.WindowsNodePool{}, &v1alpha1.WindowsNodePool{}
			tt.change(&after.Status)
			if got := poolStatusChanges.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
