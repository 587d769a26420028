// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// eventSource is the log in one channel of the event log.
type eventSource struct {
	log       EventLog
	selection EventQuery
	reader    EventReader
	missing   string
	// direct says that the channel is read oldest first only, see [ErrDirectChannel].
	direct bool
	// stop ends the search for the last events.
	stop stopSignal
	// searchUntil is for how long the last events are searched for, other than in a direct channel, where they come last.
	searchUntil time.Time
	// budget is how many bytes history may have.
	budget int64

	// history are events that were read newest first, in their right order.
	history []*Event
	// last is the ID of the newest record when the source was opened. Without
	// follow, what is younger is left out.
	last uint64
	// at is the ID of the last record that was handed out or left out.
	at uint64

	text []byte
	out  unit
}

// tailPatience is for how long the last events of all channels of a request are searched for, see [tooLate].
const tailPatience = 20 * time.Second

// open opens the channel. tail, when not nil, is how many events before the
// present moment are wanted, of those that the filter keeps.
func (s *eventSource) open(ctx context.Context, f filter, tail *int64, from *resume) error {
	s.selection.Since, s.selection.Until = f.since, f.until
	var err error
	s.last, err = EdgeRecord(ctx, s.log, s.selection.Channel, true)
	if errors.Is(err, ErrDirectChannel) && !s.selection.Follow {
		s.direct = true
		s.last, err = s.lastRecord(ctx)
	}
	if err != nil {
		return err
	}
	switch {
	case from != nil:
		if err := s.resume(ctx, from); err != nil {
			return err
		}
	case tail != nil:
		if err := s.readTail(ctx, f, *tail); err != nil {
			return err
		}
		s.selection.AfterRecord = s.last
		if !s.selection.Follow {
			return nil
		}
	}
	s.reader, err = s.log.Query(ctx, s.selection)
	return err
}

// EdgeRecord returns the ID of the newest or oldest record of a channel, 0 when the
// channel is empty. Its errors are those of the log.
func EdgeRecord(ctx context.Context, log EventLog, channel string, newest bool) (uint64, error) {
	r, err := log.Query(ctx, EventQuery{Channel: channel, NewestFirst: newest})
	if err != nil {
		return 0, err
	}
	defer r.Close() //nolint:errcheck // only read
	e, err := r.Next(ctx)
	if errors.Is(err, io.EOF) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return e.RecordID, nil
}

// lastRecord returns the ID of the newest record of a direct channel, 0 when it is empty.
func (s *eventSource) lastRecord(ctx context.Context) (last uint64, err error) {
	r, err := s.log.Query(ctx, EventQuery{Channel: s.selection.Channel})
	if err != nil {
		return 0, err
	}
	defer r.Close() //nolint:errcheck // only read
	for {
		if s.ended(ctx) {
			return 0, cmp.Or(ctx.Err(), errStopped)
		}
		e, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		last = e.RecordID
	}
}

// ended says whether nobody waits for the source to be opened any more.
func (s *eventSource) ended(ctx context.Context) bool { return ctx.Err() != nil || s.stop.stopped() }

// resume continues after a record, unless the channel was cleared or has
// overwritten what comes next.
func (s *eventSource) resume(ctx context.Context, from *resume) error {
	var after uint64
	if from.Event != nil {
		after = from.Event.RecordID
	}
	switch {
	case after > s.last:
		// Clearing a channel starts its numbers again.
		s.missing, after = "the event log channel was cleared; continuing with its oldest event", 0
	case s.last > after:
		oldest, err := EdgeRecord(ctx, s.log, s.selection.Channel, false)
		if err != nil {
			return err
		}
		if oldest > after+1 {
			s.missing = fmt.Sprintf("the records %d to %d of the event log channel are gone; continuing with its oldest event", after+1, oldest-1)
		}
	}
	s.selection.AfterRecord, s.at = after, after
	return nil
}

// readTail reads backwards until it has enough of what the filter keeps, or as much as it may keep, or may search no longer.
// A direct channel is read to its end.
func (s *eventSource) readTail(ctx context.Context, f filter, n int64) error {
	s.at = s.last
	if n == 0 {
		return nil
	}
	q := s.selection
	q.NewestFirst, q.Follow = !s.direct, false
	r, err := s.log.Query(ctx, q)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read
	search, end := ctx, context.CancelFunc(func() {})
	if !s.direct {
		search, end = context.WithDeadline(ctx, s.searchUntil)
	}
	defer end()
	ended := func() bool { return s.ended(search) }
	last := lastEvents{wanted: n, budget: s.budget}
	for more := true; more; {
		if s.ended(ctx) {
			return cmp.Or(ctx.Err(), errStopped)
		}
		if search.Err() != nil {
			s.missing = tooLate
			break
		}
		e, err := r.Next(search)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && search.Err() != nil {
			continue
		}
		if err != nil {
			return err
		}
		if e.RecordID > s.last || !f.inWindow(e.Time) {
			continue
		}
		if f.pattern != nil {
			// It is not known where the search has ended meanwhile.
			if matched, unknown := f.pattern.match(appendEvent(nil, e), ended); unknown || !matched {
				continue
			}
		}
		if s.direct {
			last.addNewer(e)
		} else {
			more = last.addOlder(e)
		}
	}
	if s.history = last.events; !s.direct {
		slices.Reverse(s.history)
	}
	if last.incomplete {
		s.missing = tooMuch
	}
	if len(s.history) > 0 {
		s.at = s.history[0].RecordID - 1
	}
	return nil
}

func (s *eventSource) gap() string { return s.missing }

func (s *eventSource) settle() {}

func (s *eventSource) close() {
	if s.reader != nil {
		s.reader.Close() //nolint:errcheck // only read
	}
}

func (s *eventSource) position() position { return position{record: s.at} }

func (s *eventSource) resumeAt(p position) resume {
	return resume{Event: &eventMark{RecordID: p.record}}
}

func (s *eventSource) next(ctx context.Context) (*unit, error) {
	e, err := s.nextEvent(ctx)
	if errors.Is(err, io.EOF) {
		// Everything up to here was handed out or left out.
		s.at = max(s.at, s.last)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.text = appendEvent(s.text[:0], e)
	s.out = unit{text: s.text, at: position{record: e.RecordID - 1}, time: e.Time, known: true, event: e}
	s.at = e.RecordID
	return &s.out, nil
}

func (s *eventSource) nextEvent(ctx context.Context) (*Event, error) {
	if len(s.history) > 0 {
		e := s.history[0]
		s.history[0] = nil
		s.history = s.history[1:]
		return e, nil
	}
	if s.reader == nil {
		return nil, io.EOF
	}
	e, err := s.reader.Next(ctx)
	if err == nil && !s.selection.Follow && e.RecordID > s.last {
		return nil, io.EOF
	}
	return e, err
}

// appendEvent renders an event as text: one line of time, level, provider and
// event ID before the message, and the further lines of the message as they are.
func appendEvent(dst []byte, e *Event) []byte {
	dst = e.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = fmt.Appendf(dst, " %s %s[%d]: ", e.Level, e.Provider, e.EventID)
	message := strings.TrimRight(strings.ReplaceAll(e.Message, "\r\n", "\n"), "\r\n ")
	return append(dst, strings.ToValidUTF8(message, "\uFFFD")...)
}
