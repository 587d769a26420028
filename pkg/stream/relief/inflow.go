// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package relief

import "sync"

// inflow counts what hosts send, and bounds it between two measurements of memory: they could
// send in that time what the memory of this process does not hold. Until allow is called there is no bound.
type inflow struct {
	mu      sync.Mutex // guards what follows
	counted uint64
	bounded bool
	left    int64
	more    chan struct{} // closed and replaced when there is more left
}

// take counts what was received. It waits while there is nothing left.
func (f *inflow) take(bytes int) {
	for {
		f.mu.Lock()
		if !f.bounded || f.left > 0 {
			f.counted += uint64(bytes)
			f.left -= int64(bytes)
			f.mu.Unlock()
			return
		}
		more := f.more
		f.mu.Unlock()
		<-more
	}
}

// count returns what was received since it was asked last.
func (f *inflow) count() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	counted := f.counted
	f.counted = 0
	return counted
}

// allow sets how much may be received from now on.
func (f *inflow) allow(bytes uint64) { f.set(true, int64(bytes)) }

// release ends the bound.
func (f *inflow) release() { f.set(false, 0) }

func (f *inflow) set(bounded bool, left int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bounded, f.left = bounded, left
	if f.more != nil {
		close(f.more)
	}
	f.more = make(chan struct{})
}
