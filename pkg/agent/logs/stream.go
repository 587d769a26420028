// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"errors"
	"time"
)

const (
	// minPoll and maxPoll bound how long a follow sleeps when there was nothing to
	// read: the longer there was nothing, the longer.
	minPoll = 25 * time.Millisecond
	maxPoll = 250 * time.Millisecond
	// stopBytes is how much is still delivered after the caller said stop. A
	// caller that stops in the middle of a long log wants the end, not the log.
	stopBytes = 4 << 20
)

// stream merges sources into an output.
type stream struct {
	sources []source
	out     *output
	plan    *plan
	now     func() time.Time
	// stop is closed when the caller wants a follow to end.
	stop stopSignal

	pending []*unit
	dry     []bool
}

// run delivers until the sources have no more or, in a follow, until it is stopped.
func (s *stream) run(ctx context.Context) error {
	s.pending = make([]*unit, len(s.sources))
	s.dry = make([]bool, len(s.sources))
	for i, src := range s.sources {
		if err := s.out.putGap(i, src.gap()); err != nil {
			return err
		}
	}
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for wait, settled := minPoll, false; ; {
		before := s.out.written
		ended := s.stop.stopped()
		err := s.pass(ctx)
		if !settled && (err == nil || errors.Is(err, errStopped)) {
			settled = true
			for _, src := range s.sources {
				src.settle()
			}
			if serr := s.out.settle(); serr != nil {
				err = serr
			}
		}
		if errors.Is(err, errStopped) {
			ended, err = true, nil
		}
		if err != nil && !errors.Is(err, errLimit) {
			return err
		}
		if ended || err != nil || !s.plan.Follow || s.past() {
			return nil
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		if s.out.written != before {
			wait = minPoll
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stop:
		case <-timer.C:
		}
		wait = min(wait*2, maxPoll)
	}
}

// errStopped ends a pass early because the caller said stop.
var errStopped = errors.New("stopped")

// stopSignal is closed when the caller wants a follow to end. Nil: it never is.
type stopSignal <-chan struct{}

func (s stopSignal) stopped() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

// past says whether the window of time has closed.
func (s *stream) past() bool {
	until := s.plan.filter.until
	// A second of grace for what is written late.
	return !until.IsZero() && s.now().After(until.Add(time.Second))
}

// pass delivers, in the order of time, everything that can be read now.
func (s *stream) pass(ctx context.Context) error {
	clear(s.dry)
	var stoppedAt int64 = -1
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if stoppedAt < 0 && s.stop.stopped() {
			stoppedAt = s.out.written
		}
		if stoppedAt >= 0 && s.out.written-stoppedAt > stopBytes {
			return errStopped
		}
		first := -1
		for i, src := range s.sources {
			if s.pending[i] == nil && !s.dry[i] {
				u, err := src.next(ctx)
				if err != nil {
					return err
				}
				s.pending[i], s.dry[i] = u, u == nil
			}
			if u := s.pending[i]; u != nil && (first < 0 || before(u, s.pending[first])) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		u := s.pending[first]
		s.pending[first] = nil
		if u.nothing {
			if stoppedAt >= 0 {
				return errStopped
			}
			continue
		}
		if err := s.out.put(first, u); err != nil {
			return err
		}
	}
}

// before orders units: what is no record first, then by time. Of equal ones the
// source that was named first comes first, as the comparison is strict.
func before(a, b *unit) bool {
	if a.nothing != b.nothing {
		return a.nothing
	}
	return a.time.Before(b.time)
}

// cursor is where to continue.
func (s *stream) cursor() cursor {
	c := cursor{Version: cursorVersion}
	for i, src := range s.sources {
		p := place{at: src.position()}
		if left, ok := s.out.undelivered[i]; ok {
			p = left
		} else if u := s.pending[i]; u != nil {
			p.at = u.at
		}
		r := src.resumeAt(p.at)
		r.Query, r.Skip = s.plan.queries[i].text, p.skip+s.out.skip[i]
		c.Sources = append(c.Sources, r)
	}
	return c
}
