// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"errors"
	"fmt"
)

// ErrNothingToAdopt is why a host that is no Node is not adopted.
var ErrNothingToAdopt = errors.New("the host is no Node, so there is nothing to take over; it is configured as any other host is")

// NotAdoptable is the error about a host that cannot be adopted, which why says.
func NotAdoptable(why error) error { return fmt.Errorf("the host cannot be taken over: %w", why) }

// AdoptionRefused returns [NotAdoptable] with what a host has answered that cannot be adopted, so that trying again does not help. err is what
// the request has failed with. Nil: the host has not answered that.
func AdoptionRefused(err error) error {
	if refused, ok := errors.AsType[*Error](err); ok && refused.Step == StepRefused {
		return NotAdoptable(refused.Err)
	}
	return nil
}
