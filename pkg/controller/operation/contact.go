// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// stages of the steps whose errors are not about inspecting the host.
var stages = map[string]diagnose.Stage{
	v1alpha1.StepPlan: diagnose.StagePlan, v1alpha1.StepTransfer: diagnose.StageTransfer, v1alpha1.StepApply: diagnose.StageApply,
	v1alpha1.StepFinish: diagnose.StageApply, v1alpha1.StepNetwork: diagnose.StageApply, v1alpha1.StepCleanup: diagnose.StageCleanup,
}

// diagnose puts an error of [Hosts] into the words of the conditions, with the layer
// that failed.
func (e *execution) diagnose(err error) string {
	stage, ok := stages[e.current]
	if !ok {
		stage = diagnose.StageFacts
	}
	return explain(stage, err, e.instance)
}

// explain is diagnose for a stage and an instance.
func explain(stage diagnose.Stage, err error, instance *v1alpha1.WindowsInstance) string {
	d := diagnose.Diagnose(stage, err, instance)
	if d.Condition == v1alpha1.ConditionConfigured || d.Condition == v1alpha1.ConditionRemoved {
		return d.Message // the reason says what failed, and that is known here
	}
	return d.Reason + ": " + d.Message
}
