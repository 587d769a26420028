// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// tell has an instance say why it does not follow its Machine, and an event about the Machine, nil if that is gone. No condition: it does.
func (r *Reconciler) tell(ctx context.Context, m *capi.Machine, instance *v1alpha1.WindowsInstance, condition *metav1.Condition) error {
	if instance == nil || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	status := instance.Status.DeepCopy()
	var changed bool
	if condition != nil {
		condition.ObservedGeneration = instance.Generation
		changed = meta.SetStatusCondition(&status.Conditions, *condition)
	} else {
		changed = meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionSourceSynced)
	}
	if !changed {
		return nil
	}
	before := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionSourceSynced)
	written := instance.DeepCopy()
	written.Status = *status
	if err := object.UpdateStatus(ctx, r.client, written); err != nil {
		return fmt.Errorf("write condition %s of WindowsInstance %s: %w", v1alpha1.ConditionSourceSynced, client.ObjectKeyFromObject(instance), err)
	}
	if condition != nil && m != nil && (before == nil || before.Reason != condition.Reason || before.Message != condition.Message) {
		r.recorder.Event(m, corev1.EventTypeWarning, condition.Reason, message.EventNote(condition.Message))
	}
	return nil
}

// kept is what an instance says whose Machine lives on without a label of Windows.
func kept(instance *v1alpha1.WindowsInstance) *metav1.Condition {
	label := wmco.MachineOSLabel + "=" + wmco.MachineOSWindows
	of := fmt.Sprintf("%s -n %s", instance.Name, instance.Namespace)
	return &metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLabelRemoved,
		Message: fmt.Sprintf("Machine %s of Cluster API has no label %s any more. The host stays as it is, and the instance no longer follows the Machine. "+
			"To undo that: kubectl label machines.%s %s %s --overwrite. %s",
			client.ObjectKeyFromObject(instance), label, capi.Group, of, label, removeByHand(of)),
	}
}

// paused is what an instance says while Cluster API is to leave its Machine alone because of why.
func paused(instance *v1alpha1.WindowsInstance, cluster client.ObjectKey, why string) *metav1.Condition {
	return &metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourcePaused,
		Message: fmt.Sprintf("Cluster API does not manage Machine %s of Cluster %s now: %s. The instance is paused until it does, and stays if the Machine goes meanwhile, which may be on its way to another cluster. %s",
			client.ObjectKeyFromObject(instance), cluster, why, removeByHand(fmt.Sprintf("%s -n %s", instance.Name, instance.Namespace))),
	}
}

// removeByHand is how somebody has the host of an instance removed whose Machine does not say so.
func removeByHand(of string) string {
	return fmt.Sprintf("To remove the host: kubectl annotate wi %s %s- && kubectl patch wi %s --type=merge -p '%s' && kubectl delete wi %s",
		of, v1alpha1.SourceAnnotation, of, `{"spec":{"paused":false,"removal":{"afterSeconds":null}}}`, of)
}
