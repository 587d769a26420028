// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import "sync/atomic"

// Backlog says whether a client takes what is sent to it. While it does not, what the host sends
// for it stays in memory, up to the window of its SSH channel. The zero value is ready; it is safe
// for concurrent use.
type Backlog struct{ begun, taken atomic.Int64 }

// Begin says that something is being sent.
func (b *Backlog) Begin() { b.begun.Add(1) }

// End says that something was taken, or never will be.
func (b *Backlog) End() { b.taken.Add(1) }

// Taken is how much has ended, and whether something has not: if it is as much later, and something has
// still not, nothing was taken in between.
func (b *Backlog) Taken() (ended int64, owed bool) {
	ended = b.taken.Load()
	return ended, b.begun.Load() > ended
}
