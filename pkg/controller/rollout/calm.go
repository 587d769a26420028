// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
)

// calmSince says since when what the Nodes say is known to be new, for passes that have something to repair. The cache says what it said before
// also while the API server is away, and right after that no kubelet may have reported yet. With an election of leaders such a process ends;
// without one nothing but a question tells.
func (s *Scheduler) calmSince(ctx context.Context, now time.Time) time.Time {
	if err := leading.Ensure(ctx, s.options.Leads); err != nil && !errors.Is(err, leading.ErrNotLeading) {
		s.calm = now
	}
	return s.calm
}
