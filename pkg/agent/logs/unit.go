// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"cmp"
	"context"
	"time"
)

// unit is what a source hands out at once: a record, a line, or, when nothing
// needs the lines, a block of them.
type unit struct {
	// text is valid until the next call of the source. It has no newline at
	// its end unless it is raw.
	text []byte
	// raw text is whole lines, each with its newline; at least one.
	raw bool
	// verbatim says that raw text is, byte by byte, what is in the file.
	verbatim bool
	// at is where the unit begins.
	at position
	// time orders the unit among others. It is a guess when known is false.
	time  time.Time
	known bool
	// continues says that the text belongs to the record handed out before.
	continues bool
	event     *Event
	// nothing is set for a unit that only says that the source is at work,
	// leaving out what the filter does not want.
	nothing bool
}

// copyFrom copies a unit with its text, into the memory of the text that u has.
func (u *unit) copyFrom(other unit) {
	other.text = append(u.text[:0], other.text...)
	*u = other
}

// source is one log, opened.
type source interface {
	// gap says what is missing before the first unit; empty: nothing.
	gap() string
	// next returns the next unit, or nil when there is none (yet).
	next(ctx context.Context) (*unit, error)
	// settle is called once, when everything that was there before the follow
	// has been handed out.
	settle()
	// position is that of the first unit that was not handed out.
	position() position
	// resumeAt turns a position into one that outlives this process, but for its query.
	resumeAt(p position) resume
	close()
}

// filter is the part of a request that decides about single records.
type filter struct {
	since, until time.Time
	pattern      *pattern
}

func (f filter) timed() bool { return !f.since.IsZero() || !f.until.IsZero() }

// inWindow takes both bounds as inclusive.
func (f filter) inWindow(t time.Time) bool {
	return (f.since.IsZero() || !t.Before(f.since)) && (f.until.IsZero() || !t.After(f.until))
}

// filtered leaves out of a source what the filter does not want.
type filtered struct {
	source
	filter filter
	// stop ends the search in a long record.
	stop stopSignal
	// kept says whether the record that continuations belong to was kept.
	kept bool
	busy unit
	// undecided is the place of the record whose search was ended; nil for none.
	undecided *position
}

// maxBusy is for how long units may be left out before the stream gets a chance to see
// that it was stopped.
const maxBusy = 100 * time.Millisecond

// position implements [source].
func (s *filtered) position() position {
	if s.undecided != nil {
		return *s.undecided
	}
	return s.source.position()
}

func (s *filtered) next(ctx context.Context) (*unit, error) {
	ended := func() bool { return ctx.Err() != nil || s.stop.stopped() }
	for begun := time.Now(); ; {
		u, err := s.source.next(ctx)
		if u == nil || err != nil {
			return u, err
		}
		keep := s.filter.inWindow(u.time)
		if keep && s.filter.pattern != nil && !(u.continues && s.kept) {
			var unknown bool
			if keep, unknown = s.filter.pattern.match(u.text, ended); unknown {
				s.undecided = new(u.at)
				return nil, cmp.Or(ctx.Err(), errStopped)
			}
		}
		if !u.continues || keep {
			s.kept = keep
		}
		if keep {
			return u, nil
		}
		if time.Since(begun) >= maxBusy {
			break
		}
	}
	s.busy = unit{nothing: true, at: s.position()}
	return &s.busy, nil
}
