// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// ended says whether a step is over, however.
func ended(step *windowsv1alpha1.OperationStep) bool {
	return step.State != windowsv1alpha1.StepPending && step.State != windowsv1alpha1.StepRunning
}
