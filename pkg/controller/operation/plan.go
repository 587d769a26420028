// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// stepFunc carries a step out. It may be called again after an interruption. An error
// of its context it returns as it is; every other error ends the operation.
type stepFunc func(e *execution, ctx context.Context) (result, error)

// result is how a step ended that did not fail.
type result struct {
	// message is for people.
	message string
	// skipped: there was nothing to do.
	skipped bool
	// enough: the operation has succeeded without the steps that follow.
	enough bool
	// skips has which of the steps that follow are not needed, and why.
	skips map[string]string
	// node is what the operation works on from now on. It is recorded together with the end
	// of the step, so that the step is done again if that is interrupted. Nil: as before.
	node *v1alpha1.OperationNode
	// again is an earlier step from which on the operation is carried out again, this one
	// included. Empty: it goes on.
	again string
}

// stepFuncs are the steps of all operations, by name.
var stepFuncs = map[string]stepFunc{
	v1alpha1.StepConnect:       (*execution).connect,
	v1alpha1.StepCheckPending:  (*execution).checkPending,
	v1alpha1.StepCordon:        (*execution).cordon,
	v1alpha1.StepEvict:         (*execution).evict,
	v1alpha1.StepDrain:         (*execution).evict,
	v1alpha1.StepRestart:       (*execution).restart,
	v1alpha1.StepBoot:          (*execution).boot,
	v1alpha1.StepServices:      (*execution).services,
	v1alpha1.StepMetadataRoute: (*execution).metadataRoute,
	v1alpha1.StepNodeReady:     (*execution).nodeReady,
	v1alpha1.StepUncordon:      (*execution).uncordon,
	v1alpha1.StepFacts:         (*execution).inspect,
	v1alpha1.StepPreflight:     (*execution).preflight,
	v1alpha1.StepAgent:         (*execution).agent,
	v1alpha1.StepPlan:          (*execution).planConfiguration,
	v1alpha1.StepTransfer:      (*execution).transfer,
	v1alpha1.StepApply:         (*execution).apply,
	v1alpha1.StepFinish:        (*execution).finish,
	v1alpha1.StepJoin:          (*execution).join,
	v1alpha1.StepNetwork:       (*execution).network,
	v1alpha1.StepVerify:        (*execution).verify,
	v1alpha1.StepCleanup:       (*execution).cleanup,
	v1alpha1.StepDeleteNode:    (*execution).deleteNode,
	v1alpha1.StepForget:        (*execution).forget,
}

// plan returns the names of the steps of an operation, nil for one that nobody knows.
// Hosts are configured if it is known with what.
func plan(op *v1alpha1.Operation, configured bool) []string {
	switch op.Type {
	case v1alpha1.OperationDrain:
		return []string{v1alpha1.StepCordon, v1alpha1.StepEvict}
	case v1alpha1.OperationUncordon:
		return []string{v1alpha1.StepUncordon}
	case v1alpha1.OperationReboot:
		return planReboot(rebootMode(op))
	case v1alpha1.OperationReconfigure:
		return planReconfigure(configured)
	case v1alpha1.OperationRemove:
		return []string{
			v1alpha1.StepConnect, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepCleanup,
			v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepDeleteNode, v1alpha1.StepForget,
		}
	}
	return nil
}

func planReboot(mode v1alpha1.RebootMode) []string {
	before, after := []string{v1alpha1.StepConnect}, []string{v1alpha1.StepUncordon}
	switch mode {
	case v1alpha1.RebootGraceful:
		before = append(before, v1alpha1.StepCordon, v1alpha1.StepDrain)
	case v1alpha1.RebootIfPending:
		before = append(before, v1alpha1.StepCheckPending, v1alpha1.StepCordon, v1alpha1.StepDrain)
	case v1alpha1.RebootForce:
		after = nil
	default:
		return nil
	}
	return slices.Concat(before, []string{
		v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepServices,
		v1alpha1.StepMetadataRoute, v1alpha1.StepNodeReady,
	}, after)
}

func planReconfigure(configured bool) []string {
	names := []string{v1alpha1.StepConnect, v1alpha1.StepFacts, v1alpha1.StepPreflight, v1alpha1.StepAgent}
	if configured {
		names = append(names,
			v1alpha1.StepPlan, v1alpha1.StepTransfer, v1alpha1.StepCordon, v1alpha1.StepDrain,
			v1alpha1.StepApply, v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepFinish,
			v1alpha1.StepJoin, v1alpha1.StepNetwork, v1alpha1.StepNodeReady, v1alpha1.StepUncordon)
	}
	return append(names, v1alpha1.StepVerify)
}

func rebootMode(op *v1alpha1.Operation) v1alpha1.RebootMode {
	if op.Reboot == nil || op.Reboot.Mode == "" {
		return v1alpha1.RebootGraceful
	}
	return op.Reboot.Mode
}

// rebootTimeout is how long the host gets from its restart until its Node is ready.
func rebootTimeout(op *v1alpha1.Operation) time.Duration {
	if op.Reboot == nil || op.Reboot.TimeoutSeconds == nil {
		return v1alpha1.DefaultRebootTimeoutSeconds * time.Second
	}
	return time.Duration(*op.Reboot.TimeoutSeconds) * time.Second
}

// newSteps are steps that have not begun.
func newSteps(names []string) []v1alpha1.OperationStep {
	steps := make([]v1alpha1.OperationStep, len(names))
	for i, name := range names {
		steps[i] = v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending}
	}
	return steps
}

// nextStep is the first step that has not ended, nil if all have.
func nextStep(op *v1alpha1.Operation) *v1alpha1.OperationStep {
	for i := range op.Steps {
		if s := op.Steps[i].State; s == v1alpha1.StepPending || s == v1alpha1.StepRunning {
			return &op.Steps[i]
		}
	}
	return nil
}

// ended says whether a step is over, however.
func ended(step *v1alpha1.OperationStep) bool {
	return step.State != v1alpha1.StepPending && step.State != v1alpha1.StepRunning
}

// rewind has an operation go on at an earlier step than the one that runs. A Node that is
// cordoned or drained stays so.
func rewind(op *v1alpha1.Operation, to, from string) {
	within := false
	for i := range op.Steps {
		step := &op.Steps[i]
		if within = within || step.Name == to; !within {
			continue
		}
		kept := (step.Name == v1alpha1.StepCordon || step.Name == v1alpha1.StepDrain) && step.State == v1alpha1.StepSucceeded
		if !kept {
			*step = v1alpha1.OperationStep{Name: step.Name, State: v1alpha1.StepPending}
		}
		if step.Name == from {
			return
		}
	}
}

// begin notes that a step runs. One that ran before keeps the time when it first did,
// which deadlines count from.
func begin(step *v1alpha1.OperationStep, now time.Time) {
	step.State = v1alpha1.StepRunning
	if step.StartedAt == nil {
		step.StartedAt = timestamp(now)
	}
}

// end notes how a step ended.
func end(step *v1alpha1.OperationStep, state v1alpha1.OperationStepState, message string, now time.Time) {
	step.State, step.Message = state, message
	if step.StartedAt != nil {
		step.FinishedAt = timestamp(now)
	}
}

// conclude ends an operation. The step that ran failed or was broken off, those after
// it were not reached.
func conclude(op *v1alpha1.Operation, phase v1alpha1.OperationPhase, message string, now time.Time) {
	for i := range op.Steps {
		switch step := &op.Steps[i]; step.State {
		case v1alpha1.StepRunning:
			state := v1alpha1.StepFailed
			if phase == v1alpha1.OperationCanceled {
				state = v1alpha1.StepCanceled
			}
			end(step, state, message, now)
		case v1alpha1.StepPending:
			note := "Not reached: the operation ended before."
			if phase == v1alpha1.OperationSucceeded {
				note = "Not needed."
			}
			end(step, v1alpha1.StepSkipped, note, now)
		}
	}
	op.Phase, op.Message = phase, message
	if op.Type != v1alpha1.OperationRemove || phase != v1alpha1.OperationFailed {
		// A removal that failed is tried again: what kept it from going on is still worth knowing.
		op.BlockedBy = nil
	}
	op.FinishedAt = timestamp(now)
}

// timestamp has whole seconds, as times in the API have.
func timestamp(now time.Time) *metav1.Time { return new(metav1.NewTime(now.Truncate(time.Second))) }
