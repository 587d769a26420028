// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// retrySoonest is how long after a failure, at the latest, a host tries an update again, and what its clock may differ. A host
// whose clock ran ahead says later times, which it does not believe itself.
const retrySoonest = 24*time.Hour + time.Hour

// updatesBackoff is between attempts to install updates that fail. Of each update the host itself knows when it is tried again.
// It is between attempts that succeed as well: the host tells what it has found since a while later, and what waits for a restart
// before it can be installed is installed by the second one. What waits after many of them that got their slot may do so for good.
var updatesBackoff = wait.Backoff{Duration: time.Hour, Factor: 2, Cap: 24 * time.Hour}

// updatesDue says whether updates of Windows are to be installed on the host of an instance, and from when on. The host has
// to be workable.
func updatesDue(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (wanted bool, due time.Time) {
	u, install := i.Status.WindowsUpdates, pool.Spec.WindowsUpdates.Install
	if u == nil || u.SearchedAt == nil {
		return false, time.Time{}
	}
	n := u.PendingOf(install)
	if n == 0 {
		return false, time.Time{}
	}
	for _, f := range u.FailedOf(install) {
		if f.Interactive {
			n--
			continue
		}
		if !f.RetryAt.After(now) || f.RetryAt.After(now.Add(retrySoonest)) {
			continue
		}
		n--
		due = earlier(due, f.RetryAt.Time)
	}
	switch {
	case n > 0:
		due = time.Time{}
	case due.IsZero(): // a person has to install the rest
		return false, time.Time{}
	}
	var last *v1alpha1.Operation
	before := now
	inRow := 0
	for _, op := range i.Status.Operations() {
		if op.Cause != v1alpha1.CauseWindowsUpdates || op.FinishedAt == nil || op.FinishedAt.After(now) || op.Withdrawn() { // by a clock that ran ahead
			continue
		}
		if last == nil {
			last = op
		}
		if op.BrokenOff() != last.BrokenOff() || last != op && !op.BrokenOff() && before.Sub(op.FinishedAt.Time) > 2*updatesBackoff.Cap {
			break
		}
		before = op.FinishedAt.Time
		if op.BrokenOff() || op.Admitted() {
			inRow++
		}
	}
	switch {
	case last == nil:
	case last.Phase == v1alpha1.OperationCanceled: // somebody does not want it now
		due = later(due, last.FinishedAt.Add(restartBackoff.Cap))
	default:
		due = later(due, last.FinishedAt.Add(pauseAfter(last, pool, updatesBackoff, inRow)))
	}
	return true, due
}

// stopsUpdates says whether updates that the pool of an instance wants failed on its host after its Node was drained for them, which would be
// so on others of the pool. What could not be downloaded, or is not tried, costs none of them anything. What the last
// operation found out is not in the status yet, until the host has searched since it installed them: whatever failed after that, it
// says itself then which updates did. One that was deleted stops nobody, however long its removal takes.
func stopsUpdates(i *v1alpha1.WindowsInstance, install v1alpha1.WindowsUpdatesInstall) bool {
	if install == "" || install == v1alpha1.InstallNone || !i.DeletionTimestamp.IsZero() {
		return false
	}
	u := i.Status.WindowsUpdates
	if u != nil && slices.ContainsFunc(u.FailedOf(install), func(f v1alpha1.FailedUpdate) bool { return !f.Interactive && f.Step != v1alpha1.StepDownloadUpdates }) {
		return true
	}
	op := i.Status.Operation
	if op == nil || op.Cause != v1alpha1.CauseWindowsUpdates || op.Phase != v1alpha1.OperationFailed {
		return false
	}
	step := op.FindStep(v1alpha1.StepInstallUpdates)
	if step == nil || step.StartedAt == nil {
		return false
	}
	installed := cmp.Or(step.FinishedAt, op.FinishedAt)
	return u == nil || u.SearchedAt == nil || installed == nil || u.SearchedAt.Before(installed)
}
