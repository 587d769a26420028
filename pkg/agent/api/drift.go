// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"time"
)

// Drift is what others changed on a host since the last document was applied.
type Drift struct {
	Time     time.Time `json:"time"`
	Revision string    `json:"revision"`
	// Repaired are the items that were repaired.
	Repaired []Item `json:"repaired,omitempty"`
	// Left are the items that were not: they would drain the Node or restart the host,
	// need a file of the payload, or are changed again and again by something else.
	Left []Item `json:"left,omitempty"`
	// Error is why something could not be repaired.
	Error string `json:"error,omitempty"`
}
