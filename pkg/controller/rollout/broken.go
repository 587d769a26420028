// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// downAfterUpdate returns the last configuration that succeeded, if the Node went down within [blamedFor] after it. Nil: it did not. That something
// else is desired by now does not end it: the host is broken until it has that. Later attempts that did not bring the Node back say nothing
// about the configuration.
func downAfterUpdate(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.Operation {
	down, ok := downByItselfSince(status)
	if !ok {
		return nil
	}
	op := succeededLast(status, func(since *v1alpha1.Operation) bool {
		return since.MayHaveChangedHost() && since.RequestedAt.Time.Before(down) // the Node was ready then
	})
	if op == nil || !op.Disturbed() || op.FinishedAt != nil && down.After(op.FinishedAt.Add(blamedFor)) {
		return nil
	}
	return op
}

// downByItselfSince is since when the Node of a host is not ready. False: it is ready, or what is done to the host now may have taken it down, as a reboot
// does. What began after it went down, as a repair or a correction, has not, and ends nothing before it succeeds; nor has what disturbs nothing yet.
func downByItselfSince(status *v1alpha1.WindowsInstanceStatus) (since time.Time, ok bool) {
	since, down := downSince(status)
	op := status.Operation
	return since, down && (!op.Active() || since.Before(op.RequestedAt.Time) || worksMeanwhile(op))
}

// downSince is since when the Node of a host is not ready as its instance says.
func downSince(status *v1alpha1.WindowsInstanceStatus) (since time.Time, down bool) {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionNodeReady)
	if c == nil || c.Reason != v1alpha1.ReasonNodeNotReady {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// worksMeanwhile says whether a host works as it did before its operation, which downloads updates of Windows, or waits for its slot.
func worksMeanwhile(op *v1alpha1.Operation) bool {
	return prepares(op) || downloads(op) || op.Type == v1alpha1.OperationReconfigure && waiting(op) && !op.MayHaveChangedHost()
}

// succeededLast returns the newest configuration of a host that succeeded, whatever has failed or was canceled since, unless one of these
// counts for the host. Nil: there is none.
func succeededLast(status *v1alpha1.WindowsInstanceStatus, counts func(since *v1alpha1.Operation) bool) *v1alpha1.Operation {
	for _, op := range status.Operations() {
		switch {
		case op.Type != v1alpha1.OperationReconfigure:
			if op.HostReleased {
				return nil
			}
		case op.Phase == v1alpha1.OperationSucceeded:
			return op
		case counts(op):
			return nil
		}
	}
	return nil
}

// blamedFor is for how long after its end an update, or a restart, is blamed for a Node that goes down.
const blamedFor = time.Hour

// downAfterRestart returns the restart that the controller recorded, and after which the Node of the host is not ready. Nil:
// there is none.
func downAfterRestart(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.Operation {
	down, ok := downByItselfSince(status)
	if !ok {
		return nil
	}
	for _, op := range status.Operations() {
		switch {
		case op.RestartedByPool() && op.FinishedAt != nil && !down.After(op.FinishedAt.Add(blamedFor)):
			return op
		case op.Phase == v1alpha1.OperationSucceeded && op.Type == v1alpha1.OperationReconfigure:
			return nil // its Node was ready then
		}
	}
	return nil
}

// brokenBy returns the configuration that changed a host which is a node at a cost for it, and
// failed, with none since that succeeded. Nil: there is none. One that failed before it changed
// the host, as when pods did not leave, says nothing about the desired configuration, nor does one
// that could not have the host join again.
func brokenBy(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.Operation {
	var oldest *v1alpha1.Operation
	cordoned := false
	for n, op := range status.Operations() {
		if op.Type != v1alpha1.OperationReconfigure {
			continue
		}
		switch op.Phase {
		case v1alpha1.OperationSucceeded:
			return nil
		case v1alpha1.OperationFailed:
			if op.Disturbed() && n < v1alpha1.MaxHistory { // the oldest has noted what those before it did
				return op
			}
			oldest, cordoned = op, cordoned || op.Node != nil && op.Node.WasUnschedulable
		}
	}
	// The oldest may be the one that broke the host, which the history keeps; in that of an earlier release attempts that failed, as a broken host
	// could not be reached, may have pushed it out. It has left its Node cordoned, which those after it have found. So does one that could not
	// have the host join again.
	if len(status.History) >= v1alpha1.MaxHistory && cordoned && !oldest.JoinsAgain {
		return oldest
	}
	return nil
}

// outcomeOf says how a host was broken.
func outcomeOf(op *v1alpha1.Operation) string {
	if op.Phase == v1alpha1.OperationSucceeded || op.Type == v1alpha1.OperationReboot {
		return "and its Node is not ready any more"
	}
	return "and failed"
}
