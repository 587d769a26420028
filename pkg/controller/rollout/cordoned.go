// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// cameBack says whether a restart that did not succeed has left the Node of an instance cordoned, and that is ready again; and from
// when on it may take pods. Nobody else would uncordon it after a restart that the controller began: nobody asked for it, and one host
// after the other would be lost to its pool. Who requested one expects that it ends with the uncordon, so that this follows, too, if the
// host was only not back in time.
func cameBack(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (ok bool, due time.Time) {
	if node == nil || !repairable(i, pool) {
		return false, time.Time{}
	}
	// What the mark says, and not the record of the operation, which may have left the history since.
	byController := drain.IsMarked(node, string(v1alpha1.OperationReboot), v1alpha1.ControllerRequester)
	after, late := drain.AwaitedFor(node, string(v1alpha1.OperationReboot))
	if !byController && !late {
		return false, time.Time{}
	}
	ready := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionNodeReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return false, time.Time{}
	}
	// A host that is still in the boot that was to end may go down at any moment, and its Node has been ready since before.
	if !byController && ready.LastTransitionTime.Time.Before(after) {
		return false, time.Time{}
	}
	due = ready.LastTransitionTime.Add(cameBackAfter)
	for _, op := range i.Status.Operations() {
		if op.Cause == v1alpha1.CauseCameBack && op.BrokenOff() && op.FinishedAt != nil {
			due = later(due, op.FinishedAt.Add(restartBackoff.Duration))
		}
	}
	return true, due
}
