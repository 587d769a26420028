// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"regexp"
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
	pattern      *regexp.Regexp
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
	// kept says whether the record that continuations belong to was kept.
	kept bool
	busy unit
}

// maxLeftOut is how many units may be left out before the stream gets a chance to
// see that it was stopped.
const maxLeftOut = 4096

func (s *filtered) next(ctx context.Context) (*unit, error) {
	for range maxLeftOut {
		u, err := s.source.next(ctx)
		if u == nil || err != nil {
			return u, err
		}
		keep := s.filter.inWindow(u.time)
		if keep && s.filter.pattern != nil {
			keep = u.continues && s.kept || s.filter.pattern.Match(u.text)
		}
		if !u.continues || keep {
			s.kept = keep
		}
		if keep {
			return u, nil
		}
	}
	s.busy = unit{nothing: true, at: s.position()}
	return &s.busy, nil
}
