// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logfollow

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"
	"time"
)

// Notices of the server in a log as text. As JSON they are objects whose first member
// no record has.
var (
	textMarks = marks{cursor: []byte("# cursor: "), end: []byte("# end: "), gap: []byte("# gap: ")}
	jsonMarks = marks{cursor: []byte(`{"cursor":"`), end: []byte(`{"end":"`), gap: []byte(`{"gap":"`)}
)

// marks are how notices of the server begin.
type marks struct{ cursor, end, gap []byte }

// anchor is a position from which the log can be read again.
type anchor struct {
	cursor string
	// carry is the beginning of a line that the limit of a request cut there.
	carry []byte
}

// ending is how a stream ended.
type ending struct {
	// cursor is where to continue. Empty: it broke off.
	cursor string
	carry  []byte
	// lines is how many lines came, bytes how much of the log that was.
	lines int
	bytes int64
	// limited says that it ended because it had delivered as much as it may.
	limited bool
	// stopping says that it ended because the server is stopping.
	stopping bool
}

// state is what a follower knows between two requests.
type state struct {
	follower *Follower
	out      *bufio.Writer
	json     bool
	marks    marks
	delivered
	chunk int64
	// limit is how many bytes the user still wants after the anchor; nil for all.
	limit  *int64
	until  bool
	anchor *anchor
	// begun is when the first stream was requested; waited says that it broke off
	// before anything came.
	begun  time.Time
	waited bool
	// gaps are held back until it is known whether they are about lines that were
	// delivered already.
	gaps [][]byte
}

func newState(f *Follower) *state {
	s := &state{
		follower: f, out: bufio.NewWriterSize(f.Out, 64<<10), marks: textMarks, chunk: cmp.Or(f.chunk, anchorBytes),
		until:     f.Query.Get(paramUntilTime) != "",
		delivered: newDelivered(f.Query[paramQuery], f.Query.Get(paramTimestamps) == "true"),
	}
	if f.Query.Get(paramOutput) == "json" {
		s.json, s.marks = true, jsonMarks
	}
	if limit, err := strconv.ParseInt(f.Query.Get(paramLimitBytes), 10, 64); err == nil {
		s.limit = &limit
	}
	return s
}

// broken records that a stream ended without a cursor. requested is when it was
// requested, open how long it lasted.
func (s *state) broken(requested time.Time, open time.Duration) {
	if s.anchor == nil && !s.waited && open >= longEnough {
		s.waited, s.begun = true, requested
	}
	s.replay()
}

// advance moves the anchor to the end of a stream that ended in good order. It says
// whether the log is over.
func (s *state) advance(end ending, limit int64) (over bool) {
	first := s.anchor == nil
	s.anchor = &anchor{end.cursor, end.carry}
	s.forget()
	if s.limit != nil {
		*s.limit -= end.bytes
		// Of a log as JSON nothing is sent when the next record is too large.
		if *s.limit <= 0 || !first && s.json && !end.stopping && limit < s.chunk {
			s.out.Write(end.carry) //nolint:errcheck // Flush reports it
			return true
		}
	}
	return s.until && !first && !end.stopping && !end.limited && (!s.json || end.lines == 0)
}

// read reads one stream to its end. A stream that ended in good order has a cursor, the
// error of any other says how it broke off.
func (s *state) read(body io.Reader, limit int64) (ending, error) {
	var (
		end  ending
		held []byte // a line that is the cursor, if it is the last one
		in   = bufio.NewReaderSize(body, 64<<10)
	)
	line := &partial{}
	if s.anchor != nil {
		line.carry = s.anchor.carry
	}
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			// What is left of a line without an end comes again.
			if !errors.Is(err, io.EOF) {
				return end, err
			}
			if held != nil && len(text) == 0 {
				end.cursor, end.carry = s.cursorOf(held), line.cut
			}
			if end.cursor == "" {
				return end, errors.New("the stream ended early")
			}
			s.showGaps()
			return end, nil
		}
		switch {
		case held != nil && bytes.HasPrefix(text, s.marks.end):
			end.stopping = true
			continue
		case held != nil:
			// It only looked like the cursor.
			s.take(&end, line, held, limit)
			held = nil
		}
		if bytes.HasPrefix(text, s.marks.cursor) {
			held = text
			continue
		}
		s.take(&end, line, text, limit)
		if in.Buffered() == 0 {
			if err := s.out.Flush(); err != nil {
				return end, err
			}
		}
	}
}

// partial is a line that is put together over two requests.
type partial struct {
	// carry is its beginning, from the request before; cut that of the next.
	carry, cut []byte
}

// take takes one line of a stream, with its newline.
func (s *state) take(end *ending, line *partial, text []byte, limit int64) {
	if end.lines == 0 && bytes.HasPrefix(text, s.marks.gap) {
		if len(line.carry) > 0 {
			// Its rest is gone.
			s.deliver(append(bytes.Clone(line.carry), '\n'))
			line.carry = nil
		}
		s.gaps = append(s.gaps, text)
		return
	}
	end.lines++
	end.bytes += int64(len(text))
	if limit > 0 && end.bytes == limit+1 && !s.json {
		// The server cut the line and put a newline before its cursor.
		end.bytes, end.limited = limit, true
		line.cut = append(bytes.Clone(line.carry), text[:len(text)-1]...)
		line.carry = nil
		return
	}
	end.limited = limit > 0 && end.bytes == limit
	if len(line.carry) > 0 {
		text = append(bytes.Clone(line.carry), text...)
		line.carry = nil
	}
	s.deliver(text)
}

// deliver writes a line unless it was written before.
func (s *state) deliver(text []byte) {
	var fresh []byte
	if s.json {
		fresh = s.freshRecord(text, len(s.gaps) > 0)
	} else if s.fresh(text, len(s.gaps) > 0) {
		fresh = text
	}
	if fresh == nil {
		// What follows the gap is known, so nothing is missing.
		s.gaps = nil
		return
	}
	s.showGaps()
	s.out.Write(fresh) //nolint:errcheck // Flush reports it
}

func (s *state) showGaps() {
	for _, gap := range s.gaps {
		s.out.Write(gap) //nolint:errcheck // Flush reports it
	}
	s.gaps = nil
}

// cursorOf takes the cursor out of its line.
func (s *state) cursorOf(line []byte) string {
	line = bytes.TrimRight(bytes.TrimPrefix(line, s.marks.cursor), "\r\n")
	if s.json {
		line = bytes.TrimSuffix(line, []byte(`"}`))
	}
	return string(line)
}
