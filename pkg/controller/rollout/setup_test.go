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
		"its spec":                           {func(i *v1alpha1.WindowsInstance) { i.Generation++ }, true},
		"its deletion":                       {func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "win-1", UID: "uid", Generation: 1},
				Status: v1alpha1.WindowsInstanceStatus{
					CurrentRevision: "a", DesiredRevision: "b", Node: &v1alpha1.NodeReference{Name: "win-1"},
					Conditions: []metav1.Condition{{Type: v1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: "NodeReady"}},
					Operation: &v1alpha1.Operation{
						ID: "reconfigure-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController,
						Revision: "a", Impact: v1alpha1.ImpactNone, AdmittedImpact: v1alpha1.ImpactNone,
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
