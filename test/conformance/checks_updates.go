// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// updatesAreFound: the agent as a service, which runs by now, has the Windows Update Agent search, and tells what that found.
// Nothing is installed.
func updatesAreFound(ctx context.Context, h *Host) error {
	var found *api.WindowsUpdates
	if err := eventually(ctx, "the updates are told", func() (bool, error) {
		facts, err := h.facts(ctx)
		if err == nil {
			found = facts.Updates
		}
		return found != nil, err
	}); err != nil {
		return err
	}
	if found.Error != "" {
		return errors.New(found.Error)
	}
	for _, u := range found.Pending {
		if u.ID == "" || u.Revision == 0 || u.Title == "" {
			return fmt.Errorf("an update is not told whole: %+v", u)
		}
	}
	return nil
}
