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
	"unsafe"
)

// eventSource is the log in one channel of the event log.
type eventSource struct {
	log       EventLog
	selection EventQuery
	reader    EventReader
	missing   string
	// stop ends the search for the last events.
	stop stopSignal
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

// open opens the channel. tail, when not nil, is how many events before the
// present moment are wanted, of those that the filter keeps.
func (s *eventSource) open(ctx context.Context, f filter, tail *int64, from *resume) error {
	s.selection.Since, s.selection.Until = f.since, f.until
	newest, err := edgeRecord(ctx, s.log, s.selection.Channel, true)
	if err != nil {
		return err
	}
	s.last = newest
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

// edgeRecord returns the ID of the newest or oldest record of a channel, 0 when the
// channel is empty.
func edgeRecord(ctx context.Context, log EventLog, channel string, newest bool) (uint64, error) {
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
		oldest, err := edgeRecord(ctx, s.log, s.selection.Channel, false)
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

// readTail reads backwards until it has enough of what the filter keeps, or as much as it may keep.
func (s *eventSource) readTail(ctx context.Context, f filter, n int64) error {
	s.at = s.last
	if n == 0 {
		return nil
	}
	q := s.selection
	q.NewestFirst, q.Follow = true, false
	r, err := s.log.Query(ctx, q)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read
	ended := func() bool { return ctx.Err() != nil || s.stop.stopped() }
	for kept := int64(0); int64(len(s.history)) < n; {
		if ended() {
			return cmp.Or(ctx.Err(), errStopped)
		}
		e, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if e.RecordID > s.last || !f.inWindow(e.Time) {
			continue
		}
		if f.pattern != nil {
			switch matched, unknown := f.pattern.match(appendEvent(nil, e), ended); {
			case unknown:
				return cmp.Or(ctx.Err(), errStopped)
			case !matched:
				continue
			}
		}
		if kept += sizeOfEvent(e); kept > s.budget {
			s.missing = tooMuch
			break
		}
		s.history = append(s.history, e)
	}
	slices.Reverse(s.history)
	if len(s.history) > 0 {
		s.at = s.history[0].RecordID - 1
	}
	return nil
}

// sizeOfEvent is how many bytes of memory an event takes in a list of them.
func sizeOfEvent(e *Event) int64 {
	const inList = 2 * int64(unsafe.Sizeof(e)) // the list grows by copying
	return int64(unsafe.Sizeof(*e)) + inList + int64(len(e.Message)+len(e.Provider)+len(e.Channel)+len(e.Level))
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
