// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// Names of the steps of a configuration that tell whether its host is disrupted. They are
// part of the API.
const (
	stepCordon   = "Cordon"
	stepDrain    = "Drain"
	stepApply    = "Apply"
	stepUncordon = "Uncordon"
)

// findStep returns a step, nil if there is none of the name.
func findStep(op *windowsv1alpha1.Operation, name string) *windowsv1alpha1.OperationStep {
	for i := range op.Steps {
		if op.Steps[i].Name == name {
			return &op.Steps[i]
		}
	}
	return nil
}

// ended says whether a step is over, however.
func ended(step *windowsv1alpha1.OperationStep) bool {
	return step.State != windowsv1alpha1.StepPending && step.State != windowsv1alpha1.StepRunning
}
