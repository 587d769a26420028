// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// pendingPause is between restarts of a host because Windows waits for one: what still waits after a restart would
// otherwise restart the host for good.
const pendingPause = 24 * time.Hour

// restartBackoff is between attempts to restart a host that fail, for example because pods do not leave.
var restartBackoff = wait.Backoff{Duration: 10 * time.Minute, Factor: 2, Cap: 6 * time.Hour}

// redrainPause is after a failure to drain a host until the next attempt, once its pool has other drain options: somebody has changed them so
// that pods leave. Whoever decides must have seen the failure.
const redrainPause = 10 * time.Second

// pauseAfter is the pause after an operation that ended, the last of so many in a row.
func pauseAfter(last *v1alpha1.Operation, pool *v1alpha1.WindowsNodePool, b wait.Backoff, inRow int) time.Duration {
	if last.FailedToDrainOtherwise(pool) {
		return redrainPause
	}
	return backoff.After(b, inRow)
}

// restartOf says why Windows is to be restarted on the host of an instance, and from when on it may. Empty: it
// is not.
func restartOf(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (cause v1alpha1.OperationCause, due time.Time) {
	if pool == nil || !workable(i, pool) {
		return "", time.Time{}
	}
	updates, updatesDue := updatesDue(i, pool, now)
	return restartWith(i, pool, updates, updatesDue, now)
}

// restartBesides says why Windows is to be restarted on the host of an instance if no updates of Windows are installed there, and
// from when on it may. Empty: it is not.
func restartBesides(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (cause v1alpha1.OperationCause, due time.Time) {
	if pool == nil || !workable(i, pool) {
		return "", time.Time{}
	}
	return restartWith(i, pool, false, time.Time{}, now)
}

// restartWith is restartOf for a workable host on which updates of Windows are to be installed, or not, from a time on.
func restartWith(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, updates bool, updatesDue, now time.Time) (cause v1alpha1.OperationCause, due time.Time) {
	policy := pool.Spec.Restarts
	after := policy.After
	requested := i.Status.AwaitsRestart(pool)
	switch {
	case requested && !after.After(now):
		cause, due = v1alpha1.CauseRestartRequested, after.Time
	case updates && !updatesDue.After(now):
		return v1alpha1.CauseWindowsUpdates, updatesDue
	case policy.Policy == v1alpha1.RestartWhenPending && meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionRebootRequired):
		cause = v1alpha1.CauseRestartPending
	case updates && (!requested || updatesDue.Before(after.Time)):
		return v1alpha1.CauseWindowsUpdates, updatesDue
	case requested: // for a day to come, until which the host goes on as if nobody had asked
		cause, due = v1alpha1.CauseRestartRequested, after.Time
	default:
		return "", time.Time{}
	}
	var last *v1alpha1.Operation
	failures := 0
	for _, op := range i.Status.Operations() {
		if op.Cause != cause || op.FinishedAt == nil || op.FinishedAt.After(now) || op.Withdrawn() { // by a clock that ran ahead
			continue
		}
		if last == nil {
			last = op
		}
		if !op.BrokenOff() || last != op && op.RequestedAt.Time.Before(due) {
			break
		}
		failures++
	}
	switch {
	case last == nil:
	case cause == v1alpha1.CauseRestartRequested && last.RequestedAt.Time.Before(due): // it was for another request
	case last.Phase == v1alpha1.OperationFailed:
		due = later(due, last.FinishedAt.Add(pauseAfter(last, pool, restartBackoff, failures)))
	case last.Phase == v1alpha1.OperationCanceled: // somebody does not want it now
		due = later(due, last.FinishedAt.Add(restartBackoff.Cap))
	case cause == v1alpha1.CauseRestartPending:
		due = later(due, last.FinishedAt.Add(pendingPause))
	default:
		// It succeeded, which the status is about to say.
		due = later(due, last.FinishedAt.Add(restartBackoff.Duration))
	}
	return cause, due
}

// workable says whether the controller may do something to the host of an instance by itself, and nothing is done to it now.
func workable(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	return !i.Status.Operation.Active() && manageable(i, pool)
}

// repairable says whether the controller may do something to the host of an instance by itself without which that stays out of service: nothing
// is done to it now, or nothing but what may take hours and ends for that.
func repairable(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	return (!i.Status.Operation.Active() || i.Status.GivesWay() || prepares(i.Status.Operation)) && manageable(i, pool)
}

// manageable says whether the controller may change the host of an instance: it has configured it, can log in, neither is paused, and no
// release has begun.
func manageable(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	status := &i.Status
	configured := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured)
	return i.DeletionTimestamp.IsZero() && status.KeptOff() == nil && object.PausedBy(i, pool) == "" &&
		status.Node != nil && status.MayHaveChangedHost() && status.ReleaseBegunBy() == nil && configured != nil && configured.Reason != v1alpha1.ReasonNotManaged &&
		status.ObservedGeneration == i.Generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAuthenticated)
}
