// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"runtime/debug"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What is short of memory ends streams that nobody reads, the longest first, and as many as it takes; not those
// that are read, or wait for the host.
func TestRelieve(t *testing.T) {
	s, pulse := NewStreams(nil), newPulse()
	const budget = 100 << 20
	have := make(chan uint64)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Relieve(ctx, pulse, budget, func(limit uint64) uint64 {
			if limit != budget {
				t.Errorf("the limit is %d", limit)
			}
			return <-have
		})
	}()
	open := func() *openStream { return s.track(func() {}) }
	waiting, reading, first := open(), open(), open()
	reading.backlog.Begin()
	first.backlog.Begin()
	read := func() { reading.backlog.End(); reading.backlog.Begin() }
	for range minUntaken - 1 {
		read()
		pulse.tick(t, 1) // nobody has stalled for long enough to be asked about
	}
	second, third := open(), open()
	second.backlog.Begin()
	ticks := func(n int, memory uint64) {
		for range n {
			read()
			pulse.tick(t, 1)
			have <- memory
		}
	}
	ticks(1, budget)
	third.backlog.Begin()
	ticks(minUntaken, budget)
	ended := func(o *openStream) bool {
		select {
		case err := <-o.relieved:
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("ended with %v", err)
			}
			return true
		default:
			return false
		}
	}
	if ended(first) {
		t.Error("a stream was ended although there is memory")
	}
	ticks(1, budget+window+1)
	ticks(1, budget) // what was ended before is ended now
	for name, test := range map[string]struct {
		stream *openStream
		want   bool
	}{"waiting": {waiting, false}, "reading": {reading, false}, "first": {first, true}, "second": {second, true}, "third": {third, false}} {
		if got := ended(test.stream); got != test.want {
			t.Errorf("%s: ended %v, want %v", name, got, test.want)
		}
	}
	cancel()
	<-over
}

func TestMemoryBudget(t *testing.T) {
	if got := MemoryBudget(); got != 0 {
		t.Errorf("without a limit: %d", got)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	if got := MemoryBudget(); got != 2<<30 {
		t.Errorf("got %d", got)
	}
	if LiveMemory(0) == 0 {
		t.Error("nothing is live")
	}
}
