// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

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
	return op.MayHaveChangedHost() && !runs(op, v1alpha1.StepApply)
}
