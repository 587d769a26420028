// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unsafe"
)

const (
	// outputBuffer is how much is gathered before it is written.
	outputBuffer = 256 << 10
	// maxTailBytes bounds the memory of what is kept to know the last lines. A host has many
	// readers at once, and it is for running pods.
	maxTailBytes = 32 << 20
)

// tooMuch is the gap where fewer lines are kept than are wanted.
const tooMuch = "older lines are left out: those that were requested need more than 32 MiB of memory; request fewer, or a shorter time"

// tooLate is the gap where fewer events are found than are wanted.
const tooLate = "older lines are left out: the search for those that were requested took more than 20s; request fewer, or a shorter time"

// errLimit says that LimitBytes is used up.
var errLimit = errors.New("the limit of bytes is reached")

// place is where a source continues: at a position, less what was delivered of
// the unit there.
type place struct {
	at   position
	skip int64
}

// output renders units and writes them.
type output struct {
	*plan
	w *bufio.Writer
	// limit is how many bytes may still be written.
	limit int64
	// skip is, per source, how much of what comes was delivered by an earlier
	// request.
	skip []int64
	// tail holds lines back while it is not known which are the last.
	tail *tailBuffer
	// undelivered are the places of what the limit left out, per source.
	undelivered map[int]place
	// written counts the bytes of log.
	written int64
	// midLine: what was written last does not end with a newline.
	midLine bool

	line []byte
}

// put renders one unit of a source.
func (o *output) put(src int, u *unit) error {
	text := u.text
	if !u.raw || o.json {
		text = o.render(src, u)
	}
	skipped := int64(0)
	if o.skip[src] > 0 {
		skipped = min(o.skip[src], int64(len(text)))
		o.skip[src] -= skipped
		text = text[skipped:]
		if len(text) == 0 {
			return nil
		}
	}
	from := place{u.at, skipped}
	if o.tail == nil {
		return o.emit(src, from, text, u.verbatim)
	}
	if o.json {
		o.tail.push(src, from, text)
		return nil
	}
	for line := range bytes.Lines(text) {
		o.tail.push(src, from, line)
		from.skip += int64(len(line))
	}
	return nil
}

// settle writes the lines that were held back, and holds back no more.
func (o *output) settle() error {
	t := o.tail
	if t == nil {
		return nil
	}
	o.tail = nil
	var err error
	if int64(len(t.lines)) < t.max {
		for _, src := range slices.Sorted(maps.Keys(t.short)) {
			if err := o.putGap(src, tooMuch); err != nil {
				return err
			}
		}
	}
	for _, l := range t.lines {
		if err != nil {
			// Left out by the limit.
			if _, ok := o.undelivered[l.src]; !ok {
				o.undelivered[l.src] = l.from
			}
			continue
		}
		if err = o.emit(l.src, l.from, l.text, false); err != nil && !errors.Is(err, errLimit) {
			return err
		}
	}
	return err
}

// emit writes rendered text, as much of it as the limit allows.
func (o *output) emit(src int, from place, text []byte, verbatim bool) error {
	if int64(len(text)) <= o.limit {
		o.limit -= int64(len(text))
		if err := o.write(text); err != nil {
			return err
		}
		if o.limit == 0 {
			return errLimit
		}
		return nil
	}
	n := o.limit
	if o.json {
		// Half an object cannot be parsed.
		n = 0
	}
	o.limit = 0
	if verbatim {
		from.at.off += n
	} else {
		from.skip += n
	}
	o.undelivered[src] = from
	if err := o.write(text[:n]); err != nil {
		return err
	}
	return errLimit
}

func (o *output) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	o.written += int64(len(text))
	o.midLine = text[len(text)-1] != '\n'
	if _, err := o.w.Write(text); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

func (o *output) flush() error {
	if err := o.w.Flush(); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

// render makes the lines of a unit that is not raw. The result is valid until the
// next call.
func (o *output) render(src int, u *unit) []byte {
	o.line = o.line[:0]
	if o.json {
		o.line = appendRecord(o.line, o.queries[src].text, u)
		return o.line
	}
	for line := range bytes.SplitSeq(u.text, []byte{'\n'}) {
		if len(o.queries) > 1 {
			o.line = append(append(append(o.line, '['), o.queries[src].text...), "] "...)
		}
		if o.Timestamps && u.known && !hasTimestamp(line) {
			o.line = append(u.time.UTC().AppendFormat(o.line, time.RFC3339Nano), ' ')
		}
		o.line = append(append(o.line, line...), '\n')
	}
	return o.line
}

// putGap writes a notice, which is no part of the log and of no limit. An empty one is none.
func (o *output) putGap(src int, gap string) error {
	if gap == "" {
		return nil
	}
	if o.json {
		return o.write(appendJSON(nil, struct {
			Gap    string `json:"gap"`
			Source string `json:"source"`
		}{gap, o.queries[src].text}))
	}
	return o.write(fmt.Appendf(nil, "# gap: %s: %s\n", o.queries[src].text, gap))
}

// trailer ends the answer with its cursor.
func (o *output) trailer(c cursor) error {
	text := c.encode()
	if o.json {
		return o.write([]byte(`{"cursor":"` + text + "\"}\n"))
	}
	if o.midLine {
		if err := o.write([]byte{'\n'}); err != nil {
			return err
		}
	}
	return o.write([]byte("# cursor: " + text + "\n"))
}

// tailBuffer keeps the last lines, in at most [maxTailBytes] of memory.
type tailBuffer struct {
	max   int64
	lines []tailLine
	bytes int64
	// short are the sources of lines that would not be kept for the memory that they need.
	short map[int]bool
}

type tailLine struct {
	src  int
	from place
	text []byte
}

// size is how many bytes of memory a line takes in a list of them, which grows by copying.
func (l tailLine) size() int64 { return 2*int64(unsafe.Sizeof(l)) + int64(cap(l.text)) }

func (t *tailBuffer) push(src int, from place, text []byte) {
	if t.max == 0 {
		return
	}
	line := tailLine{src: src, from: from}
	if int64(len(t.lines)) >= t.max {
		// The memory of a long line is not kept for a short one.
		if free := t.drop().text; cap(free) <= 2*len(text) {
			line.text = free[:0]
		}
	}
	line.text = append(line.text, text...)
	for t.bytes+line.size() > maxTailBytes && len(t.lines) > 0 {
		if t.short == nil {
			t.short = make(map[int]bool)
		}
		t.short[t.drop().src] = true
	}
	t.lines = append(t.lines, line)
	t.bytes += line.size()
}

// drop removes the oldest line.
func (t *tailBuffer) drop() tailLine {
	oldest := t.lines[0]
	t.bytes -= oldest.size()
	t.lines[0] = tailLine{}
	t.lines = t.lines[1:]
	return oldest
}
