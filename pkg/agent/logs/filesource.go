// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"time"
)

// grain is how finely a source is cut into units.
type grain int

const (
	// byBlock: lines are passed on as they are.
	byBlock grain = iota
	// byLine: each line is filtered and printed by itself.
	byLine
	// byRecord: continuation lines stay with the line that they continue.
	byRecord
)

const (
	// maxRecordLines bounds a record together with maxLine bytes. What goes
	// beyond comes as a continuation.
	maxRecordLines = 10_000
	// peekBytes is how far ahead and back the time of a line without one is
	// looked for.
	peekBytes = 64 << 10
)

// fileSource is the log in a file and its rotated generations.
type fileSource struct {
	chain   chain
	grain   grain
	now     func() time.Time
	missing string
	// live: what is read now was written after the follow began.
	live bool

	// context completes the times in a file that was modified at contextAt.
	context   timeContext
	contextAt time.Time
	// lastTime is the time of the line before; timed says whether any line
	// had a time of its own, which makes lines without one continuations.
	lastTime time.Time
	timed    bool
	// inCut: the line before was cut and continues.
	inCut bool
	// guess is the time of lines before the first one with a time, for guessFor.
	guess    time.Time
	guessFor *segment

	// record is handed out; ahead, with hasAhead, is the first line of the next one. Both own
	// their text.
	record, ahead unit
	hasAhead      bool
	blockText     []byte
	out           unit
}

func (s *fileSource) gap() string { return s.missing }
func (s *fileSource) settle()     { s.live = true }
func (s *fileSource) close()      { s.chain.close() }

func (s *fileSource) position() position {
	if s.hasAhead {
		return s.ahead.at
	}
	return s.chain.position()
}

func (s *fileSource) resumeAt(p position) resume {
	var r resume
	if p.seg != nil {
		m := p.seg.mark(p.off)
		r.File = &m
	}
	return r
}

func (s *fileSource) next(context.Context) (*unit, error) {
	switch s.grain {
	case byBlock:
		return s.nextBlock()
	case byLine:
		ln, ok, err := s.nextLine()
		if err != nil || !ok {
			return nil, err
		}
		s.out = s.unitOf(ln)
		return &s.out, nil
	default:
		return s.nextRecord()
	}
}

// nextLine includes a last line without end, where no more will come.
func (s *fileSource) nextLine() (rawLine, bool, error) {
	ln, ok, err := s.chain.line()
	if err == nil && !ok && !s.chain.follow {
		ln, ok = s.chain.rest()
	}
	return ln, ok, err
}

func (s *fileSource) nextBlock() (*unit, error) {
	raw, at, ok, err := s.chain.block()
	if err != nil {
		return nil, err
	}
	if ok {
		enc := s.chain.seg.enc
		s.out = unit{text: raw, raw: true, verbatim: true, at: at}
		if !enc.verbatim(raw) {
			s.blockText = s.blockText[:0]
			for len(raw) > 0 {
				n := enc.lineEnd(raw)
				s.blockText = append(enc.appendText(s.blockText, raw[:n]), '\n')
				raw = raw[n:]
			}
			s.out.text, s.out.verbatim = s.blockText, false
		}
		return &s.out, nil
	}
	var ln rawLine
	if s.chain.spansFiles() {
		ln, ok, err = s.chain.line()
	}
	if err == nil && !ok && !s.chain.follow {
		ln, ok = s.chain.rest()
	}
	if err != nil || !ok {
		return nil, err
	}
	s.blockText = append(s.blockText[:0], ln.text...)
	if !ln.cut {
		s.blockText = append(s.blockText, '\n')
	}
	s.out = unit{text: s.blockText, raw: true, at: ln.at}
	return &s.out, nil
}

func (s *fileSource) nextRecord() (*unit, error) {
	lines := 0
	if s.hasAhead {
		s.record, s.ahead = s.ahead, s.record
		s.hasAhead, lines = false, 1
	}
	for ; ; lines++ {
		ln, ok, err := s.nextLine()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		u := s.unitOf(ln)
		switch {
		case lines == 0:
			s.record.copyFrom(u)
		case !u.continues || lines >= maxRecordLines || len(s.record.text)+len(u.text) >= maxLine:
			s.ahead.copyFrom(u)
			s.hasAhead = true
			return &s.record, nil
		default:
			s.record.text = append(append(s.record.text, '\n'), u.text...)
		}
	}
	if lines == 0 {
		return nil, nil
	}
	return &s.record, nil
}

// unitOf finds the time of a line and whether it continues the one before.
func (s *fileSource) unitOf(ln rawLine) unit {
	u := unit{text: ln.text, at: ln.at, known: true}
	wasCut := s.inCut
	s.inCut = ln.cut
	if wasCut {
		u.time, u.known, u.continues = s.lastTime, s.timed, true
		return u
	}
	c := s.timeContext()
	t, ok := lineTime(ln.text, c)
	switch {
	case ok:
		u.time, s.timed = t, true
	case s.timed:
		u.time, u.continues = s.lastTime, true
	case s.live:
		u.time = s.now()
	default:
		u.time, u.known = s.guessTime(c), false
	}
	s.lastTime = u.time
	return u
}

// timeContext is that of the file being read.
func (s *fileSource) timeContext() timeContext {
	if seg := s.chain.seg; seg != nil && (s.context.loc == nil || !s.contextAt.Equal(seg.gen.mtime)) {
		s.contextAt = seg.gen.mtime
		s.context = newTimeContext(s.now().Location(), seg.gen.mtime)
	}
	return s.context
}

// guessTime is the time of lines that come before any with a time: that of the
// first one that has one, or else when the file was last written.
func (s *fileSource) guessTime(c timeContext) time.Time {
	ch := &s.chain
	if ch.seg == nil || s.guessFor == ch.seg {
		return s.guess
	}
	s.guess, s.guessFor = ch.seg.gen.mtime, ch.seg
	ahead := ch.buf[ch.r:ch.w]
	for _, t := range linesWithTime(ch.seg.enc, ahead[:min(len(ahead), peekBytes)], c) {
		s.guess = t
		break
	}
	return s.guess
}

// lookBack prepares for a start in the middle of a file: the lines there may
// continue a record that begins before.
func (s *fileSource) lookBack() {
	ch := &s.chain
	if ch.seg == nil || ch.off == 0 || !ch.seg.decideEncoding(true) {
		return
	}
	from := max(0, ch.off-peekBytes)
	raw, _, err := readLines(ch.seg, from-from%2, ch.off)
	if err != nil {
		return
	}
	for _, t := range linesWithTime(ch.seg.enc, raw[:ch.seg.enc.lastLineEnd(raw)], s.timeContext()) {
		s.lastTime, s.timed = t, true
	}
}
