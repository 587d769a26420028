// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// drainAgain has an operation that another execution began cordon and drain its Node once more, if that takes pods although it was cordoned. That execution
// may have failed, and uncordoned the Node, and ended before it could record that; or somebody else has uncordoned it meanwhile. Pods that have come
// to it since must leave it before the host is changed or restarted. See decision 80.
func (e *execution) drainAgain(ctx context.Context) error {
	op := e.operation()
	if !cordonedByUs(op) || !op.FindStep(v1alpha1.StepCordon).Ended() || !e.disturbsNext() {
		return nil
	}
	node, err := e.ownNode(ctx)
	if err != nil || node == nil || node.UID != op.Node.UID || node.Spec.Unschedulable {
		return err
	}
	// Nobody else takes the mark away, and that execution did so only where the restart had not been asked for.
	e.unsent = op.BootID != "" && node.Annotations[v1alpha1.CordonedByAnnotation] == ""
	e.note(func(status *v1alpha1.WindowsInstanceStatus) {
		for _, name := range []string{v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepRestart} { // which have all of their time again
			if step := status.Operation.FindStep(name); step != nil && step.StartedAt != nil {
				*step = v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending}
			}
		}
	})
	return nil
}

// disturbsNext says whether the operation is between the cordon of its Node and what that is for, which has the Node uncordoned if it fails. What has changed the
// host leaves it cordoned, as do removals and drains.
func (e *execution) disturbsNext() bool {
	switch op := e.operation(); op.Type {
	case v1alpha1.OperationReconfigure:
		return !e.touched()
	case v1alpha1.OperationReboot:
		next := nextStep(op)
		return next != nil && slices.Contains([]string{v1alpha1.StepDrain, v1alpha1.StepInstallUpdates, v1alpha1.StepRestart}, next.Name)
	}
	return false
}
