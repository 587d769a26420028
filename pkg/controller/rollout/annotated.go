// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// maxRenewed is on how many hosts of a namespace at the same time what annotations ask for is found out to cost. Others can be drained meanwhile.
const maxRenewed = 16

// annotatedBackoff is between operations that annotations of one Node ask for, whether they succeed or not. Whoever may annotate
// the Node may ask, and its kubelet may: one that asks again and again gets its host restarted once a day. The cache may also have
// the annotation for a while after an operation has removed it.
var annotatedBackoff = wait.Backoff{Duration: 10 * time.Minute, Factor: 2, Cap: 24 * time.Hour}

// renewal says whether an annotation of the Node of an instance asks for a new configuration of its host, and from when on that is
// done. It confirms nothing: its kubelet may write it. A host that is not configured is configured anyway, and that fulfills the request.
func renewal(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node, now time.Time) (due time.Time, ok bool) {
	if !object.AsksForConfiguration(node) || !workable(i, pool) || i.Status.Unconfirmed(pool) || i.Status.DesiredRevision == "" ||
		!meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionPreflightPassed) {
		return time.Time{}, false
	}
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason == v1alpha1.ReasonInputsMissing {
		return time.Time{}, false
	}
	return annotatedDue(i, pool, now), true
}

// annotatedRestart says whether an annotation of the Node of an instance asks for a restart of its host, and from when on that may be.
func annotatedRestart(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node, now time.Time) (due time.Time, ok bool) {
	if !object.AsksForRestart(node) || !workable(i, pool) {
		return time.Time{}, false
	}
	return annotatedDue(i, pool, now), true
}

// annotatedDue is from when on an operation may follow those before it that annotations asked for: whatever they asked, as the
// history of operations is all that remembers them, and also those that were withdrawn before they began. Zero: at any time.
func annotatedDue(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) time.Time {
	var last *v1alpha1.Operation
	before, inRow := now, 0
	for _, op := range i.Status.Operations() {
		annotated := op.Cause == v1alpha1.CauseVersionChanged || op.Cause == v1alpha1.CauseRestartAnnotated
		if !annotated || op.FinishedAt == nil || op.FinishedAt.After(now) { // by a clock that ran ahead
			continue
		}
		if before.Sub(op.FinishedAt.Time) > 2*annotatedBackoff.Cap {
			break
		}
		if last == nil {
			last = op
		}
		before, inRow = op.FinishedAt.Time, inRow+1
	}
	switch {
	case last == nil:
		return time.Time{}
	case last.Phase == v1alpha1.OperationCanceled && last.CancelRequestedAt != nil: // somebody does not want it now
		return last.FinishedAt.Add(annotatedBackoff.Cap)
	}
	return last.FinishedAt.Add(pauseAfter(last, pool, annotatedBackoff, inRow))
}
