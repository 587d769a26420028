// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

const (
	// busyFor is for how long is waited while Windows installs something else, as the signatures of its antivirus, and busyEvery how often
	// is asked. refusedEvery is between two calls that it refuses for that.
	busyFor, busyEvery, refusedEvery = 15 * time.Minute, 5 * time.Second, 30 * time.Second
	// busyMargin is how long before the end of its context the wait ends, so that the caller learns that nothing was begun.
	busyMargin = time.Minute
)

// whenAllowed calls install when Windows installs nothing else, as it refuses to until then. Where it does although it says that it is not busy, that
// is repeated for as long as it would have been waited for.
func whenAllowed(ctx context.Context, busy, restartFirst func() (bool, error), install func() error) error {
	deadline := time.Now().Add(busyFor)
	if end, ok := ctx.Deadline(); ok && end.Add(-busyMargin).Before(deadline) {
		deadline = end.Add(-busyMargin)
	}
	for {
		if err := beforeInstall(ctx, deadline, busy, restartFirst); err != nil {
			return err
		}
		err := install()
		if !errors.Is(err, updates.ErrBusy) || !time.Now().Before(deadline) {
			return err
		}
		if err := engine.Sleep(ctx, min(refusedEvery, time.Until(deadline))); err != nil {
			return fmt.Errorf("%w: %w", updates.ErrNotBegun, err)
		}
	}
}

// beforeInstall waits until Windows installs nothing else. After that it returns [updates.ErrRestartFirst] if Windows has
// to be restarted: what it has installed meanwhile may be why. All its other errors wrap [updates.ErrNotBegun].
func beforeInstall(ctx context.Context, deadline time.Time, busy, restartFirst func() (bool, error)) error {
	for {
		is, err := busy()
		if err != nil {
			return fmt.Errorf("%w: finding out whether Windows installs something else: %w", updates.ErrNotBegun, err)
		}
		if !is {
			break
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%w: %w", updates.ErrNotBegun, updates.ErrBusy)
		}
		if err := engine.Sleep(ctx, busyEvery); err != nil {
			return fmt.Errorf("%w: %w", updates.ErrNotBegun, err)
		}
	}
	first, err := restartFirst()
	if err != nil {
		return fmt.Errorf("%w: finding out whether Windows has to be restarted first: %w", updates.ErrNotBegun, err)
	}
	if first {
		return updates.ErrRestartFirst
	}
	return nil
}
