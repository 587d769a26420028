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
)

// pace is how often at most an operation writes what only tells people how far it is: once in the given time, and less often while many run. Those
// that have waited for a slot do not count: nearly all of them still do.
func (r *Reconciler) pace(least time.Duration) time.Duration {
	running := r.runner.Load(laneLimited).Running
	return max(least, time.Duration(running)*time.Second/progressRate)
}

// progressPace is how often at most the progress of an operation is written.
func (r *Reconciler) progressPace() time.Duration { return r.pace(progressInterval) }

// follow runs something in a goroutine of its own and writes how far it is, at most once
// in an interval, which may change, and the first and the last report always. Reports that were not written yet are
// dropped for newer ones. When one cannot be written, the context of run is canceled, and the
// error is that of the write. follow returns when run has.
func follow[T any](ctx context.Context, c clock.Clock, interval func() time.Duration, run func(ctx context.Context, report func(T)) error, write func(T) error) error {
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
	for {
		ended := false
		select {
		case <-arrived:
		case <-done:
			ended = true
		}
		if report := newest.Swap(nil); report != nil {
			if err := write(*report); err != nil {
				return err
			}
		}
		if ended {
			return runErr
		}
		pause := c.NewTimer(interval())
		select {
		case <-pause.C():
		case <-done:
			pause.Stop()
		}
	}
}
