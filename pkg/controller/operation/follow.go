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
	// maxProgressInterval and maxNoteInterval are how old progress, and a note, may be before it is written, however many operations run.
	maxProgressInterval = 5 * time.Second
	maxNoteInterval     = 15 * time.Second
)

// pace spaces what operations tell of their progress. It is safe for concurrent use.
type pace struct {
	running atomic.Int64 // how many operations do
	telling atomic.Int64 // how many of them are in something that tells how far it is
}

// interval is how often at most one of them writes it: less often while many do.
func (p *pace) interval() time.Duration {
	return shared(p.telling.Load(), progressInterval, maxProgressInterval)
}

// noteInterval is after what time it is written what one of them has noted, so that people see what takes long: later while many run, as
// then every step takes long.
func (p *pace) noteInterval() time.Duration {
	return shared(p.running.Load(), noteInterval, maxNoteInterval)
}

// shared is the interval at which each of n operations writes, so that all of them together write progressRate times a second: not less than
// least, and not more than most.
func shared(n int64, least, most time.Duration) time.Duration {
	return min(max(least, time.Duration(n)*time.Second/progressRate), most)
}

// waits takes an operation that waits for others, perhaps for hours, from those that run, until the returned function is called.
func (p *pace) waits() (goesOn func()) {
	p.running.Add(-1)
	return func() { p.running.Add(1) }
}

// firstReport says when follow writes the first report.
type firstReport bool

const (
	// firstAtOnce: it has to be known, whatever happens next.
	firstAtOnce firstReport = true
	// firstInTurn: after [pace.noteInterval], so that what ends before is written with what comes next.
	firstInTurn firstReport = false
)

// follow runs something in a goroutine of its own and writes how far it is, at most once
// in the interval of p, and the last report always. Reports that were not written yet are
// dropped for newer ones. Of the last one, unless it is a first one that has to be known, it is said that all is over, so that it can be written
// with what comes next. When one cannot be written, the context of run is canceled, and the
// error is that of the write. follow returns when run has.
func follow[T any](ctx context.Context, c clock.Clock, p *pace, begin firstReport, run func(ctx context.Context, report func(T)) error, write func(report T, over bool) error) error {
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
	pause := func(d time.Duration) {
		timer := c.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-done:
		}
	}
	if begin == firstInTurn {
		pause(max(p.interval(), p.noteInterval())) // what ends before is written with what comes next
	}
	for first := begin == firstAtOnce; ; {
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
		pause(p.interval())
	}
}
