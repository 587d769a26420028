// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "k8s.io/apimachinery/pkg/api/meta"

// FailedRestart is the newest operation of a cause that has ended, if it failed: Windows was to be restarted, or updates of it were to be
// installed. Nil: there is none, or it was for another request of the pool than that of now, or the host says itself which updates failed
// (status.windowsUpdates.failed). The pool is that of the host, nil if it is in none.
func (s *WindowsInstanceStatus) FailedRestart(cause OperationCause, pool *WindowsNodePool) *Operation {
	for _, op := range s.Operations() {
		if cause == "" || op.Cause != cause || op.Active() || op.Withdrawn() {
			continue
		}
		if op.Phase != OperationFailed ||
			cause == CauseRestartRequested && pool != nil && op.RequestedAt.Before(pool.Spec.Restarts.After) ||
			cause == CauseWindowsUpdates && s.saysItself(op) {
			return nil
		}
		return op
	}
	return nil
}

// saysItself says whether the host has said which updates of Windows failed in an operation. In those of the history nobody sees any more how
// far they came.
func (s *WindowsInstanceStatus) saysItself(op *Operation) bool {
	if s.WindowsUpdates == nil || len(s.WindowsUpdates.Failed) == 0 {
		return false
	}
	failed := func(name string) bool {
		step := op.FindStep(name)
		return step != nil && step.State == StepFailed
	}
	return len(op.Steps) == 0 || failed(StepDownloadUpdates) || failed(StepInstallUpdates) || failed(StepVerifyUpdates)
}

// FailedRestartFor is [WindowsInstanceStatus.FailedRestart] for what the pool still wants of the host. Whether its Node still asks for a
// restart only the Node says. Nil: nothing has failed that is still wanted.
func (s *WindowsInstanceStatus) FailedRestartFor(pool *WindowsNodePool) *Operation {
	if s.AwaitsRestart(pool) {
		if op := s.FailedRestart(CauseRestartRequested, pool); op != nil {
			return op
		}
	}
	if s.WindowsUpdates != nil && s.WindowsUpdates.PendingOf(pool.Spec.WindowsUpdates.Install) > 0 {
		if op := s.FailedRestart(CauseWindowsUpdates, pool); op != nil {
			return op
		}
	}
	if pool.Spec.Restarts.Policy == RestartWhenPending && meta.IsStatusConditionTrue(s.Conditions, ConditionRebootRequired) {
		return s.FailedRestart(CauseRestartPending, pool)
	}
	return nil
}

// AwaitsRestart says whether the host is a Node that was not restarted since the time that its pool says (spec.restarts.after).
func (s *WindowsInstanceStatus) AwaitsRestart(pool *WindowsNodePool) bool {
	after := pool.Spec.Restarts.After
	return after != nil && s.Node != nil && s.LastRestart().Before(after.Time)
}
