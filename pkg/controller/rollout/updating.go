// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// isChanged says whether something is done to the host of an instance that its pool wants, or a person configures it. held is what the
// hosts of its pool wait for: one whose operation waits is changed when nothing but others keep it from that, as hosts are that have none.
func isChanged(i *v1alpha1.WindowsInstance, held holdup) bool {
	op := i.Status.Operation
	if !op.Active() || op.Cause == "" && (op.Type != v1alpha1.OperationReconfigure || i.Status.Node == nil) {
		return false
	}
	return held.text == "" || newHost(i).waits == ""
}

// updatingCondition says whether hosts are being changed, or will be without anybody's doing, and else what all of them wait for.
func updatingCondition(pool *v1alpha1.WindowsNodePool, updated metav1.Condition, changing []string, held holdup) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionUpdating, Status: metav1.ConditionFalse}
	switch {
	case len(changing) > 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonUpdateInProgress
		c.Message = "Hosts that are being changed: " + enumerate(changing) + "."
	case pool.Spec.Paused:
		c.Reason, c.Message = v1alpha1.ReasonPaused, "spec.paused is true."
	case held.moves:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonUpdateInProgress, "Hosts are next; see status.blockedBy."
	case held.settles && (!held.stays || held.upkeep) && updated.Status != metav1.ConditionTrue:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonUpdateInProgress, updated.Message
	case held.stays:
		kind := held.kind
		if kind == waitsForPlan && pool.Spec.UpdateStrategy.Type == v1alpha1.OnRequest {
			kind = waitsForRequest // whatever it costs
		}
		why := waitKinds[kind].updating
		if why.reason == "" {
			why.reason, why.text = v1alpha1.ReasonUpdateBlocked, "Hosts wait for somebody or for a time"
		}
		c.Reason, c.Message = why.reason, why.text+"; see status.blockedBy."
		if held.upkeep && updated.Status == metav1.ConditionTrue {
			c.Reason, c.Message = updated.Reason, message.ConditionMessage(updated.Message+" Updates of Windows or restarts are outstanding. "+c.Message)
		}
	case updated.Status == metav1.ConditionTrue:
		c.Reason, c.Message = updated.Reason, updated.Message
	default:
		c.Reason, c.Message = v1alpha1.ReasonUpdateOutstanding, updated.Message+" The others are not fit to be updated now: see their conditions."
	}
	return c
}
