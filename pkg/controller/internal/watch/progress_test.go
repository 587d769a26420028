// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestMoreThanProgress(t *testing.T) {
	step := func(name string) v1alpha1.OperationStep {
		return v1alpha1.OperationStep{Name: name, State: v1alpha1.StepRunning, StartedAt: new(metav1.Now())}
	}
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.WindowsInstance)
		want bool
	}{
		"a message": {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Message = "2 of 3 pods have left." }},
		"how far it is": {edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Progress, i.ManagedFields = &v1alpha1.OperationProgress{Done: 1}, []metav1.ManagedFieldsEntry{{Manager: "m"}}
		}},
		"another step": {edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Steps = []v1alpha1.OperationStep{step(v1alpha1.StepTransfer)}
		}},
		"the same once more":  {edit: func(i *v1alpha1.WindowsInstance) { i.ResourceVersion = "1" }, want: true},
		"the host is changed": {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.HostChanged = true }, want: true},
		"a step that changes the host": {edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Steps = []v1alpha1.OperationStep{step(v1alpha1.StepApply)}
		}, want: true},
		"it waits for its slot, and gives way": {edit: func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation.Origin, i.Status.Operation.Cause = v1alpha1.OriginController, v1alpha1.CauseVersionChanged
			i.Status.Operation.Steps = []v1alpha1.OperationStep{step(v1alpha1.StepWaitForSlot)}
		}, want: true},
		"it ends":               {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Phase = v1alpha1.OperationSucceeded }, want: true},
		"another operation":     {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.ID = "op-2" }, want: true},
		"somebody cancels it":   {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.CancelRequestedBy = "alice" }, want: true},
		"another kind":          {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Operation.Type = v1alpha1.OperationReboot }, want: true},
		"what is desired":       {edit: func(i *v1alpha1.WindowsInstance) { i.Status.DesiredRevision = "r2" }, want: true},
		"its spec":              {edit: func(i *v1alpha1.WindowsInstance) { i.Generation, i.Spec.Paused = 2, true }, want: true},
		"an annotation":         {edit: func(i *v1alpha1.WindowsInstance) { i.Annotations = map[string]string{"a": "b"} }, want: true},
		"it is deleted":         {edit: func(i *v1alpha1.WindowsInstance) { i.DeletionTimestamp = new(metav1.Now()) }, want: true},
		"its condition changes": {edit: func(i *v1alpha1.WindowsInstance) { i.Status.Conditions = []metav1.Condition{{Type: "Ready"}} }, want: true},
	} {
		before := &v1alpha1.WindowsInstance{}
		before.Generation, before.ResourceVersion = 1, "1"
		before.Status.Operation = &v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning}
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		tt.edit(after)
		if got := MoreThanProgress.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !MoreThanProgress.Create(event.CreateEvent{}) || !MoreThanProgress.Delete(event.DeleteEvent{}) {
		t.Error("what comes and goes is not passed")
	}
}
