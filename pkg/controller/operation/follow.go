// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// progressInterval is how often at most the progress of something is written.
	progressInterval = time.Second
	// progressRate is how many writes a second there are at most, of all operations together, that only tell people how far they are.
	// Each costs the API servers about as much as one that others depend on: a hundred hosts at once would tell so much that they get slower,
	// and so tell more.
	progressRate = 10
	// maxProgressInterval is how old a progress is at most that people see, however many operations run.
	maxProgressInterval = 5 * time.Second
)

// pace spaces what operations tell of their progress. It is safe for concurrent use.
type pace struct {
	telling atomic.Int64 // how many do
}

// interval is how often at most one of them writes it: less often while many do.
func (p *pace) interval() time.Duration {
	return min(max(progressInterval, time.Duration(p.telling.Load())*time.Second/progressRate), maxProgressInterval)
}

// follow runs something in a goroutine of its own and writes how far it is, at most once
// in the interval of p, and the first and the last report always. Reports that were not written yet are
// dropped for newer ones. Of the last one, unless it is the first, it is said that all is over, so that it can be written with what comes next. When one cannot be written, the context of run is canceled, and the
// error is that of the write. follow returns when run has.
func follow[T any](ctx context.Context, c clock.Clock, p *pace, run func(ctx context.Context, report func(T)) error, write func(report T, over bool) error) error {
	p.telling.Add(1)
	defer p.telling.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var newest atomic.Pointer[T] // nil: all reports are written, or dropped
	arrived, done := make(chan struct{}, 1), make(chan struct{})
	var runErr error
	wg.Go(func() {
		defer close(done)
		runErr = run(ctx, func(report T) {
			newest.Store(&report)
			select {
			case arrived <- struct{}{}:
			default:
			}
		})
	})
	for first := true; ; {
		select {
		case <-arrived:
		case <-done:
		}
		ended := false
		select {
		case <-done: // also if the last report came with it
			ended = true
		default:
		}
		if report := newest.Swap(nil); report != nil {
			if err := write(*report, ended && !first); err != nil {
				return err
			}
			first = false
		}
		if ended {
			return runErr
		}
		pause := c.NewTimer(p.interval())
		select {
		case <-pause.C():
		case <-done:
			pause.Stop()
		}
	}
}
