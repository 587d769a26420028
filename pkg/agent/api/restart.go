// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"time"
)

// RestartNotice is the time from the agent's answer to the moment when the host goes
// down, about: it lets the answer out.
const RestartNotice = 2 * time.Second

// RestartRequest requests one restart of the host. As it names the boot that
// is to end, it can be repeated without a second restart, for example when the answer
// was lost together with the connection.
type RestartRequest struct {
	// BootID is the boot to end, as [BootFacts.ID] has it. It must not be empty.
	BootID string `json:"bootID"`
	// Reason is kept in the log of the system, for people.
	Reason string `json:"reason,omitempty"`
	// Force ends programs that do not end by themselves, with what they have not saved.
	Force bool `json:"force,omitempty"`
}

// RestartAnswer is the answer to a [RestartRequest].
type RestartAnswer struct {
	// BootID is the boot that the host is in.
	BootID string `json:"bootID"`
	// Restarted means that the boot of the request is over, and that nothing was done.
	// While it is false, and the host has not refused, it is about to go down.
	Restarted bool `json:"restarted"`
	// Refused says why the host does not restart. Only this means that it does not: without an
	// answer the agent may have ended because the host goes down. Empty: it has not refused.
	Refused string `json:"refused,omitempty"`
}
