// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

const (
	// busyFor is for how long is waited while Windows installs something else, as the signatures of its antivirus, and busyEvery how often
	// is asked.
	busyFor, busyEvery = 15 * time.Minute, 5 * time.Second
	// busyMargin is how long before the end of its context the wait ends, so that the caller learns that nothing was begun.
	busyMargin = time.Minute
)

// beforeInstall waits until Windows installs nothing else, as it refuses to until then. After that it returns [updates.ErrRestartFirst] if Windows has
// to be restarted: what it has installed meanwhile may be why. All its other errors wrap [updates.ErrNotBegun].
func beforeInstall(ctx context.Context, busy, restartFirst func() (bool, error)) error {
	deadline := time.Now().Add(busyFor)
	if end, ok := ctx.Deadline(); ok && end.Add(-busyMargin).Before(deadline) {
		deadline = end.Add(-busyMargin)
	}
	for {
		is, err := busy()
		if err != nil {
			return fmt.Errorf("%w: finding out whether Windows installs something else: %w", updates.ErrNotBegun, err)
		}
		if !is {
			break
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%w: Windows installs something else, and did not end that in time", updates.ErrNotBegun)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", updates.ErrNotBegun, ctx.Err())
		case <-time.After(busyEvery):
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
