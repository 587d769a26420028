// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// computeStatus returns the status of a pool from its instances. Of the status that
// the pool has it keeps what the controller of its source wrote. The times of the
// conditions are not set. ofRevisions is what [troublesOfRevisions] says.
func computeStatus(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, held holdup, back *v1alpha1.PoolRollback, ofRevisions []trouble, now time.Time) v1alpha1.WindowsNodePoolStatus {
	status := v1alpha1.WindowsNodePoolStatus{
		ObservedGeneration: pool.Generation,
		DesiredReplicas:    pool.Status.DesiredReplicas,
		Replicas:           int32(len(instances)),
		BlockedBy:          held.text,
	}
	var staying, current int32
	var failed, outdated, changing []string
	for _, instance := range instances {
		updated := hasOfPool(instance, back)
		if updated {
			status.UpdatedReplicas++
		}
		if !instance.DeletionTimestamp.IsZero() {
			continue // it is on its way out, however ready it still is
		}
		staying++
		if updated {
			current++
		}
		if isChanged(instance, held) {
			changing = append(changing, instance.Name)
		}
		if meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionReady) {
			status.ReadyReplicas++
		}
		if instance.Status.Phase == v1alpha1.InstanceFailed {
			failed = append(failed, instance.Name)
		}
		if c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionUpToDate); c != nil && c.Reason == v1alpha1.ReasonUpdateFailed {
			outdated = append(outdated, instance.Name)
		}
	}
	synced := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionSourceSynced)
	if pool.Spec.Source.Instances != nil {
		status.DesiredReplicas = staying
		synced = &metav1.Condition{
			Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced,
			Message: "The pool has the instances that name it in spec.poolRef.",
		}
		status.Conditions = append(status.Conditions, *synced)
	}
	status.UnavailableReplicas = max(0, status.DesiredReplicas-status.ReadyReplicas)

	troubles, lacking := troublesOfHosts(pool, instances, failed, held, now)
	degraded := degradedCondition(slices.Concat(ofRevisions, troublesOfPool(pool, synced, back), troubles), outdated, lacking)
	paused := pausedCondition(pool)
	updated := updatedCondition(pool, current, staying, back, held.settles)
	status.Conditions = append(status.Conditions, updated, updatingCondition(pool, updated, changing, held), degraded, paused)
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = pool.Generation
	}
	status.Phase = phaseOf(synced, degraded, paused, status.UnavailableReplicas)
	return status
}

func isUpdated(instance *v1alpha1.WindowsInstance) bool {
	return instance.Status.DesiredRevision != "" && instance.Status.CurrentRevision == instance.Status.DesiredRevision
}

// updatedCondition says whether all hosts have what is desired. settles: that was changed a moment ago. Whoever waits for the condition after that
// must not be told that it is done because the hosts have what they had.
func updatedCondition(pool *v1alpha1.WindowsNodePool, current, of int32, back *v1alpha1.PoolRollback, settles bool) metav1.Condition {
	if back.ByPerson() {
		c := metav1.Condition{
			Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUndone,
			Message: message.ConditionMessage(fmt.Sprintf("%d of %d hosts of the pool have gone back. %s", current, of, unpins(pool, back))),
		}
		if current == of {
			c.Status, c.Message = metav1.ConditionTrue, message.ConditionMessage("All hosts of the pool have gone back. "+unpins(pool, back))
		}
		return c
	}
	if settles && current == of {
		return metav1.Condition{
			Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateOutstanding,
			Message: "What the pool has was changed a moment ago; what its hosts lack of that is about to be known.",
		}
	}
	if current == of {
		return metav1.Condition{
			Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAllUpdated,
			Message: "All hosts of the pool have the desired configuration.",
		}
	}
	if back != nil {
		return metav1.Condition{
			Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRolledBack,
			Message: fmt.Sprintf("%d of %d hosts of the pool have revision %s, which is not rolled out any more.", current, of, back.Revision),
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateOutstanding,
		Message: fmt.Sprintf("%d of %d hosts of the pool have the desired configuration.", current, of),
	}
}

// describeUnkept says that the template of a pool cannot be kept as a revision, what follows from that, and what to do. Empty: it is kept,
// or nobody has refused it, so that the next attempt is likely to succeed.
func describeUnkept(pool *v1alpha1.WindowsNodePool, err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsAlreadyExists(err) && status.ErrStatus.Details != nil {
		return fmt.Sprintf("ControllerRevision %[1]s, of the present spec.template and payload, is not as windows-controller has made it: somebody has changed its data or its owner. "+
			"Until it is deleted, this template ends no rollback and no undo, and no host can go back to it: kubectl delete controllerrevisions.apps %[1]s -n %[2]s. It is made again by itself.", status.ErrStatus.Details.Name, pool.Namespace)
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsInternalError(err) { // quotas and admission; webhooks that do not answer
		return ""
	}
	return fmt.Sprintf("spec.template, or the payload, has changed, and the API server does not accept the ControllerRevision of it: %v. Until it does, no rollback and no undo ends for the change, "+
		"and none can go back to it. Let windows-controller write it, for example with room in a quota (kubectl describe resourcequota -n %s); it is tried again by itself.", err, pool.Namespace)
}

// resumes says how the rollback of a pool ends.
func resumes(namespace, pool string) string {
	return fmt.Sprintf("Those hosts go back to the revision that they worked with, and no further host gets this one. Change spec.template of pool %s or the payload, or try the same again: kubectl windows rollout resume %s -n %s", pool, pool, namespace)
}

func pausedCondition(pool *v1alpha1.WindowsNodePool) metav1.Condition {
	if pool.Spec.Paused {
		return metav1.Condition{
			Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPaused,
			Message: "spec.paused is true, so the controller does nothing on the hosts of the pool.",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionPaused, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPaused,
		Message: "The controller manages the hosts of the pool.",
	}
}

// phaseOf picks the one word. That somebody has to act comes before everything else.
func phaseOf(synced *metav1.Condition, degraded, paused metav1.Condition, unavailable int32) v1alpha1.WindowsNodePoolPhase {
	switch {
	case degraded.Status == metav1.ConditionTrue:
		return v1alpha1.PoolDegraded
	case paused.Status == metav1.ConditionTrue:
		return v1alpha1.PoolPaused
	case synced == nil:
		return v1alpha1.PoolPending
	case unavailable > 0:
		return v1alpha1.PoolProgressing
	default:
		return v1alpha1.PoolReady
	}
}
