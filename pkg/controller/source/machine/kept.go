// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// tellKept says in a condition of an instance, and by an event on its Machine, that it is kept
// although the Machine no longer asks for it. When that is over, it takes the condition off.
func (r *Reconciler) tellKept(ctx context.Context, machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance, kept bool) error {
	if instance == nil || !belongs(instance) || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	status := instance.Status.DeepCopy()
	condition := keptCondition(instance)
	var changed bool
	if kept {
		changed = meta.SetStatusCondition(&status.Conditions, condition)
	} else {
		changed = meta.RemoveStatusCondition(&status.Conditions, condition.Type)
	}
	if !changed {
		return nil
	}
	written := instance.DeepCopy()
	written.Status = *status
	if err := object.UpdateStatus(ctx, r.client, written); err != nil {
		return fmt.Errorf("write condition %s of WindowsInstance %s: %w", condition.Type, client.ObjectKeyFromObject(instance), err)
	}
	if kept {
		r.recorder.Event(machine, corev1.EventTypeWarning, condition.Reason, message.EventNote(condition.Message))
	}
	return nil
}

// keptCondition is what an instance says whose Machine lives on without the label of Windows.
func keptCondition(instance *v1alpha1.WindowsInstance) metav1.Condition {
	label := wmco.MachineOSLabel + "=" + wmco.MachineOSWindows
	of := fmt.Sprintf("%s -n %s", instance.Name, instance.Namespace)
	return metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLabelRemoved,
		ObservedGeneration: instance.Generation,
		Message: fmt.Sprintf("Machine %s has no label %s any more. The host stays as it is, and the instance no longer follows the Machine. "+
			"To undo that: kubectl label machines.machine.openshift.io %s %s --overwrite. "+
			"To remove the host: kubectl annotate wi %s %s- && kubectl patch wi %s --type=merge -p '%s' && kubectl delete wi %s",
			client.ObjectKeyFromObject(instance), label, of, label, of, v1alpha1.SourceAnnotation, of, `{"spec":{"removal":{"afterSeconds":null}}}`, of),
	}
}
