// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"time"
)

// LeftReason is why an item is not repaired for some time.
type LeftReason string

// Why items are not repaired for some time. Each repair would restart services.
const (
	// LeftContested items were repaired several times, and changed by something else each time.
	LeftContested LeftReason = "Contested"
	// LeftFailed items could not be repaired several times.
	LeftFailed LeftReason = "RepairFailed"
)

// Drift is what others changed on a host since the last document was applied.
type Drift struct {
	Time     time.Time `json:"time"`
	Revision string    `json:"revision"`
	// Repaired are the items that were repaired.
	Repaired []Item `json:"repaired,omitempty"`
	// Left are the items that were not: they would drain the Node or restart the host,
	// need a file of the payload, or are left for some time; see [Item.Left].
	Left []Item `json:"left,omitempty"`
	// Error is why something could not be repaired.
	Error string `json:"error,omitempty"`
}
