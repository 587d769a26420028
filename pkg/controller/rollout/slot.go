// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// slot is what a host takes of what is shared by all.
type slot int

const (
	slotNone slot = iota
	// slotServiceRestart is for hosts whose services are restarted.
	slotServiceRestart
	// slotDisruption is for hosts that are drained or restarted.
	slotDisruption
)

// slotOf is what an impact takes.
func slotOf(impact v1alpha1.ChangeImpact) slot {
	switch impact {
	case v1alpha1.ImpactDrain, v1alpha1.ImpactReboot:
		return slotDisruption
	case v1alpha1.ImpactRestart:
		return slotServiceRestart
	}
	return slotNone
}

// holds is the slot that an operation has. One that found out that it costs less than it was admitted with
// has the smaller one.
func holds(op *v1alpha1.Operation) slot {
	if op.Active() && op.Type == v1alpha1.OperationRemove {
		return slotOf(op.AdmittedImpact)
	}
	if op.Active() && op.Cause != "" && op.Type != v1alpha1.OperationReconfigure {
		switch op.Type {
		case v1alpha1.OperationUncordon:
			return slotNone
		case v1alpha1.OperationRestartServices:
			return slotServiceRestart
		}
		if op.Cause == v1alpha1.CauseWindowsUpdates && (len(op.Steps) == 0 || op.FindStep(v1alpha1.StepWaitForSlot) != nil) && !op.Admitted() || uncordoned(op) {
			return slotNone
		}
		return slotDisruption
	}
	if disrupted(op) {
		return slotDisruption
	}
	if restarting(op) {
		return slotServiceRestart
	}
	if !op.Active() || op.Type != v1alpha1.OperationReconfigure || op.JoinsAgain || op.AdmittedImpact == "" {
		return slotNone
	}
	if uncordoned(op) && slotOf(op.AdmittedImpact) == slotDisruption {
		return slotNone
	}
	if op.Phase == v1alpha1.OperationRunning && op.Node == nil {
		return slotNone // it is no Node
	}
	if op.Impact == "" || !planned(op) {
		return slotOf(op.AdmittedImpact)
	}
	return min(slotOf(op.AdmittedImpact), slotOf(op.Impact))
}

// hadSlot is the slot that an operation had which has ended, as far as its record says it.
func hadSlot(op *v1alpha1.Operation) slot {
	switch {
	case op.Active():
		return slotNone
	case op.Type == v1alpha1.OperationReconfigure || op.Type == v1alpha1.OperationRemove:
		return slotOf(op.AdmittedImpact)
	case op.Cause == "" || op.StartedAt == nil:
		return slotNone
	case op.Type == v1alpha1.OperationRestartServices:
		return slotServiceRestart
	case op.Type == v1alpha1.OperationReboot && (op.Cause != v1alpha1.CauseWindowsUpdates || op.Admitted()):
		return slotDisruption
	}
	return slotNone
}

// disrupted says whether a configuration may, according to its record, cordon and drain the
// Node, and has not uncordoned it yet.
func disrupted(op *v1alpha1.Operation) bool {
	if !op.Active() || op.Type != v1alpha1.OperationReconfigure {
		return false
	}
	cordon, drain, uncordon := op.FindStep(v1alpha1.StepCordon), op.FindStep(v1alpha1.StepDrain), op.FindStep(v1alpha1.StepUncordon)
	if cordon == nil || drain == nil || uncordon == nil || drain.State == v1alpha1.StepSkipped || uncordon.Ended() {
		return false
	}
	disruptive := op.Impact == v1alpha1.ImpactDrain || op.Impact == v1alpha1.ImpactReboot
	return cordon.Ended() || disruptive && hasSlot(op)
}

// restarting says whether a configuration that the controller recorded may, according to its
// record, restart services of a Node. It is not known before the end whether that works.
func restarting(op *v1alpha1.Operation) bool {
	if !op.Active() || op.Type != v1alpha1.OperationReconfigure || !op.ByController() || op.Node == nil || op.Impact != v1alpha1.ImpactRestart {
		return false
	}
	return hasSlot(op)
}

// hasSlot says whether the host has got the slot that the operation needs. Releases before that step waited for
// it while the step Apply ran.
func hasSlot(op *v1alpha1.Operation) bool {
	if slot := op.FindStep(v1alpha1.StepWaitForSlot); slot != nil {
		return slot.State == v1alpha1.StepSucceeded
	}
	return op.MayHaveChangedHost() && !op.At(v1alpha1.StepApply)
}

// downloads says whether updates of Windows that a person has asked for are not on the host yet. It is drained for them as soon as they are,
// and works until then.
func downloads(op *v1alpha1.Operation) bool {
	if !op.Active() || op.Cause != "" || !op.Reboot.InstallsUpdates() {
		return false
	}
	slot := op.FindStep(v1alpha1.StepWaitForSlot) // which is over at once
	return len(op.Steps) == 0 || slot != nil && !slot.Ended()
}

// prepares says whether an operation downloads updates of Windows, or waits for its slot with them.
func prepares(op *v1alpha1.Operation) bool {
	return op.Active() && op.Cause == v1alpha1.CauseWindowsUpdates && holds(op) == slotNone && !uncordoned(op)
}

// uncordoned says whether the Node takes pods again, whatever the operation still does.
func uncordoned(op *v1alpha1.Operation) bool { return ended(op, v1alpha1.StepUncordon) }

// planned says whether the operation has found out what it costs.
func planned(op *v1alpha1.Operation) bool { return ended(op, v1alpha1.StepPlan) }

func ended(op *v1alpha1.Operation, name string) bool {
	step := op.FindStep(name)
	return step != nil && step.Ended()
}

// waiting says whether an operation is at a step that waits to be admitted. Releases before the step
// WaitForSlot waited in the steps that it is about.
func waiting(op *v1alpha1.Operation) bool {
	if op.FindStep(v1alpha1.StepWaitForSlot) != nil {
		return op.At(v1alpha1.StepWaitForSlot)
	}
	return slotOf(op.Impact) != slotNone && (op.At(v1alpha1.StepCordon) || op.At(v1alpha1.StepApply))
}
