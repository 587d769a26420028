// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

const (
	// completesWithin is for how long after a boot Windows may go on with what was installed before it (TrustedInstaller.exe), and offer it still. The
	// step of an operation that verifies waits longer, and allows for a search after that.
	completesWithin = 15 * time.Minute
	// verifyEvery is between two searches until then.
	verifyEvery = 5 * time.Minute
)

// verify ends when all that was installed before the boot is known to be there, or not to be. Its first search was made.
func (u *Updater) verify(ctx context.Context, known *api.WindowsUpdates, boot string) error {
	a := known.Attempt
	defer func() { a.WaitsUntil = time.Time{} }()
	for slices.ContainsFunc(known.Unproven, func(i api.InstalledUpdate) bool { return i.BootID != boot }) {
		a.WaitsUntil = known.RunningSince.Add(completesWithin)
		if err := u.keep(known); err != nil {
			return err
		}
		if err := u.sleep(ctx, min(verifyEvery, u.completesFor(known))); err != nil {
			return err
		}
		if err := u.search(ctx, known, boot); err != nil {
			return err
		}
		if known.Error != "" {
			return errors.New(known.Error)
		}
	}
	a.RebootRequired = slices.ContainsFunc(known.Unproven, func(i api.InstalledUpdate) bool { return i.SecondRestart && i.BootID == boot })
	return nil
}

// completesFor is for how long Windows may still complete what was installed before the boot. A clock that ran ahead must not put the verdict off.
func (u *Updater) completesFor(known *api.WindowsUpdates) time.Duration {
	left := known.RunningSince.Add(completesWithin).Sub(u.Now())
	if left > completesWithin+clockSlack {
		return 0
	}
	return max(0, left)
}

// mayBeCompleted says whether an update was installed before the boot, and no search has found out yet what has become of it. To install it once more
// is not due.
func mayBeCompleted(known *api.WindowsUpdates, p *api.Update) bool {
	return slices.ContainsFunc(known.Unproven, func(i api.InstalledUpdate) bool {
		return i.ID == p.ID && i.Revision == p.Revision && i.BootID != known.RunningBootID
	})
}
