// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Names of steps.
const (
	stepConnect       = "Connect"
	stepCheckPending  = "CheckPending"
	stepCordon        = "Cordon"
	stepEvict         = "Evict"
	stepDrain         = "Drain"
	stepRestart       = "Restart"
	stepBoot          = "Boot"
	stepServices      = "Services"
	stepMetadataRoute = "MetadataRoute"
	stepNodeReady     = "NodeReady"
	stepUncordon      = "Uncordon"
	stepFacts         = "Facts"
	stepPreflight     = "Preflight"
	stepAgent         = "Agent"
	stepPlan          = "Plan"
	stepTransfer      = "Transfer"
	stepApply         = "Apply"
	stepFinish        = "Finish"
	stepJoin          = "Join"
	stepNetwork       = "Network"
	stepVerify        = "Verify"
	stepCleanup       = "Cleanup"
	stepDeleteNode    = "DeleteNode"
	stepForget        = "Forget"
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
	node *windowsv1alpha1.OperationNode
	// again is an earlier step from which on the operation is carried out again, this one
	// included. Empty: it goes on.
	again string
}

// stepFuncs are the steps of all operations, by name.
var stepFuncs = map[string]stepFunc{
	stepConnect:       (*execution).connect,
	stepCheckPending:  (*execution).checkPending,
	stepCordon:        (*execution).cordon,
	stepEvict:         (*execution).evict,
	stepDrain:         (*execution).evict,
	stepRestart:       (*execution).restart,
	stepBoot:          (*execution).boot,
	stepServices:      (*execution).services,
	stepMetadataRoute: (*execution).metadataRoute,
	stepNodeReady:     (*execution).nodeReady,
	stepUncordon:      (*execution).uncordon,
	stepFacts:         (*execution).inspect,
	stepPreflight:     (*execution).preflight,
	stepAgent:         (*execution).agent,
	stepPlan:          (*execution).planConfiguration,
	stepTransfer:      (*execution).transfer,
	stepApply:         (*execution).apply,
	stepFinish:        (*execution).finish,
	stepJoin:          (*execution).join,
	stepNetwork:       (*execution).network,
	stepVerify:        (*execution).verify,
	stepCleanup:       (*execution).cleanup,
	stepDeleteNode:    (*execution).deleteNode,
	stepForget:        (*execution).forget,
}

// plan returns the names of the steps of an operation, nil for one that nobody knows.
// Hosts are configured if it is known with what.
func plan(op *windowsv1alpha1.Operation, configured bool) []string {
	switch op.Type {
	case windowsv1alpha1.OperationDrain:
		return []string{stepCordon, stepEvict}
	case windowsv1alpha1.OperationUncordon:
		return []string{stepUncordon}
	case windowsv1alpha1.OperationReboot:
		back := []string{stepRestart, stepBoot, stepServices, stepMetadataRoute, stepNodeReady}
		switch rebootMode(op) {
		case windowsv1alpha1.RebootGraceful:
			return slices.Concat([]string{stepConnect, stepCordon, stepDrain}, back, []string{stepUncordon})
		case windowsv1alpha1.RebootIfPending:
			return slices.Concat([]string{stepConnect, stepCheckPending, stepCordon, stepDrain}, back, []string{stepUncordon})
		case windowsv1alpha1.RebootForce:
			return slices.Concat([]string{stepConnect}, back)
		}
	case windowsv1alpha1.OperationReconfigure:
		if !configured {
			return []string{stepConnect, stepFacts, stepPreflight, stepAgent, stepVerify}
		}
		return []string{
			stepConnect, stepFacts, stepPreflight, stepAgent,
			stepPlan, stepTransfer, stepCordon, stepDrain, stepApply, stepRestart, stepBoot, stepFinish,
			stepJoin, stepNetwork, stepNodeReady, stepUncordon, stepVerify,
		}
	case windowsv1alpha1.OperationRemove:
		return []string{stepConnect, stepCordon, stepDrain, stepCleanup, stepRestart, stepBoot, stepDeleteNode, stepForget}
	}
	return nil
}

func rebootMode(op *windowsv1alpha1.Operation) windowsv1alpha1.RebootMode {
	if op.Reboot == nil || op.Reboot.Mode == "" {
		return windowsv1alpha1.RebootGraceful
	}
	return op.Reboot.Mode
}

// rebootTimeout is how long the host gets from its restart until its Node is ready.
func rebootTimeout(op *windowsv1alpha1.Operation) time.Duration {
	if op.Reboot == nil || op.Reboot.TimeoutSeconds == nil {
		return windowsv1alpha1.DefaultRebootTimeoutSeconds * time.Second
	}
	return time.Duration(*op.Reboot.TimeoutSeconds) * time.Second
}

// newSteps are steps that have not begun.
func newSteps(names []string) []windowsv1alpha1.OperationStep {
	steps := make([]windowsv1alpha1.OperationStep, len(names))
	for i, name := range names {
		steps[i] = windowsv1alpha1.OperationStep{Name: name, State: windowsv1alpha1.StepPending}
	}
	return steps
}

// findStep returns a step, nil if there is none of the name.
func findStep(op *windowsv1alpha1.Operation, name string) *windowsv1alpha1.OperationStep {
	for i := range op.Steps {
		if op.Steps[i].Name == name {
			return &op.Steps[i]
		}
	}
	return nil
}

// nextStep is the first step that has not ended, nil if all have.
func nextStep(op *windowsv1alpha1.Operation) *windowsv1alpha1.OperationStep {
	for i := range op.Steps {
		if s := op.Steps[i].State; s == windowsv1alpha1.StepPending || s == windowsv1alpha1.StepRunning {
			return &op.Steps[i]
		}
	}
	return nil
}

// ended says whether a step is over, however.
func ended(step *windowsv1alpha1.OperationStep) bool {
	return step.State != windowsv1alpha1.StepPending && step.State != windowsv1alpha1.StepRunning
}

// rewind has an operation go on at an earlier step than the one that runs. A Node that is
// cordoned or drained stays so.
func rewind(op *windowsv1alpha1.Operation, to, from string) {
	within := false
	for i := range op.Steps {
		step := &op.Steps[i]
		if within = within || step.Name == to; !within {
			continue
		}
		kept := (step.Name == stepCordon || step.Name == stepDrain) && step.State == windowsv1alpha1.StepSucceeded
		if !kept {
			*step = windowsv1alpha1.OperationStep{Name: step.Name, State: windowsv1alpha1.StepPending}
		}
		if step.Name == from {
			return
		}
	}
}

// begin notes that a step runs. One that ran before keeps the time when it first did,
// which deadlines count from.
func begin(step *windowsv1alpha1.OperationStep, now time.Time) {
	step.State = windowsv1alpha1.StepRunning
	if step.StartedAt == nil {
		step.StartedAt = timestamp(now)
	}
}

// end notes how a step ended.
func end(step *windowsv1alpha1.OperationStep, state windowsv1alpha1.OperationStepState, message string, now time.Time) {
	step.State, step.Message = state, message
	if step.StartedAt != nil {
		step.FinishedAt = timestamp(now)
	}
}

// conclude ends an operation. The step that ran failed or was broken off, those after
// it were not reached.
func conclude(op *windowsv1alpha1.Operation, phase windowsv1alpha1.OperationPhase, message string, now time.Time) {
	for i := range op.Steps {
		switch step := &op.Steps[i]; step.State {
		case windowsv1alpha1.StepRunning:
			state := windowsv1alpha1.StepFailed
			if phase == windowsv1alpha1.OperationCanceled {
				state = windowsv1alpha1.StepCanceled
			}
			end(step, state, message, now)
		case windowsv1alpha1.StepPending:
			note := "Not reached: the operation ended before."
			if phase == windowsv1alpha1.OperationSucceeded {
				note = "Not needed."
			}
			end(step, windowsv1alpha1.StepSkipped, note, now)
		}
	}
	op.Phase, op.Message = phase, message
	if op.Type != windowsv1alpha1.OperationRemove || phase != windowsv1alpha1.OperationFailed {
		// A removal that failed is tried again: what kept it from going on is still worth knowing.
		op.BlockedBy = nil
	}
	op.FinishedAt = timestamp(now)
}

// timestamp has whole seconds, as times in the API have.
func timestamp(now time.Time) *metav1.Time { return new(metav1.NewTime(now.Truncate(time.Second))) }
