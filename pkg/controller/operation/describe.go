// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// describeSuccess says how an operation that went well ended.
func (e *execution) describeSuccess() string {
	op := e.operation()
	switch op.Type {
	case v1alpha1.OperationDrain:
		total := int32(0)
		if op.Progress != nil {
			total = op.Progress.Total
		}
		return fmt.Sprintf("Node %s is cordoned, and its pods have left: %d.", op.Node.Name, total)
	case v1alpha1.OperationReboot:
		message := "The host was restarted."
		if step := op.FindStep(v1alpha1.StepInstallUpdates); step != nil {
			if restart := op.FindStep(v1alpha1.StepRestart); restart.State == v1alpha1.StepSkipped {
				message = restart.Message
			}
			message = step.Message + " " + message
		}
		for _, name := range []string{v1alpha1.StepNodeReady, v1alpha1.StepUncordon} {
			if step := op.FindStep(name); step != nil && step.State == v1alpha1.StepSucceeded {
				message += " " + step.Message
			}
		}
		return message
	case v1alpha1.OperationRelease:
		return op.FindStep(v1alpha1.StepRelease).Message + " " + op.FindStep(v1alpha1.StepReleaseNode).Message
	case v1alpha1.OperationRemove:
		// The message of the event: the instance goes now.
		if step := op.FindStep(v1alpha1.StepCleanup); step != nil {
			return step.Message
		}
	}
	return op.Steps[len(op.Steps)-1].Message
}

// describeEvicted says which pods are gone although the operation was broken off.
func describeEvicted(op *v1alpha1.Operation) string {
	if p := op.Progress; p != nil && p.Done > 0 {
		return fmt.Sprintf(" %d of %d pods have left the Node and will not return by themselves.", p.Done, p.Total)
	}
	if step := op.FindStep(v1alpha1.StepDrain); step != nil && step.State == v1alpha1.StepSucceeded {
		return fmt.Sprintf(" The drain was over. %s They will not return by themselves.", step.Message)
	}
	return ""
}
