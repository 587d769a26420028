// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// ended says whether a step is over, however.
func ended(step *v1alpha1.OperationStep) bool {
	return step.State != v1alpha1.StepPending && step.State != v1alpha1.StepRunning
}
