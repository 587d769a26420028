// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"unicode/utf8"
)

const (
	// maxLine is where a line without end is cut, so that a broken file cannot
	// fill the memory. It is the greatest size of the read buffer too.
	maxLine = 1 << 20
	// minBuffer is the read buffer of a file that grows slowly.
	minBuffer = 32 << 10
)

// position is a place in a log: in one generation of a file, or in an event channel.
type position struct {
	seg *segment
	off int64
	// record is the ID of the event before the place.
	record uint64
}

// chain reads the generations of a log as the one text that was written, from
// some place in one of them to the end of the present one. It keeps its file open
// across renames and looks for the next one only at its end, so it neither loses
// nor repeats anything however often the log is rotated in between.
type chain struct {
	series series
	// follow: the text has no end, only a place up to which it is written.
	follow bool
	// resumable: a later read continues where this one ends, so an incomplete
	// character is left to it.
	resumable bool
	// pinned: the text ends with the file that was begun with.
	pinned bool
	// stop is where a read without follow ends: at what was there when it
	// began. The size of a gzip file does not matter.
	stop *generation

	// seg is the file being read; nil while there is none yet.
	seg *segment
	// buf[r:w] was read and not handed out; off is the offset of buf[r].
	buf  []byte
	r, w int
	off  int64
	// carry is the text of a line that began in an earlier generation, at
	// carryAt. With carryDone that line has ended there.
	carry     []byte
	carryAt   position
	carryDone bool
	// text holds a line that had to be decoded.
	text []byte

	// known are the generations that come before seg. They are needed only when
	// seg itself can no longer be found among the others.
	known    knownGenerations
	mismatch int
}

// begin starts reading at an offset of an opened generation. older are the
// generations before it.
func (c *chain) begin(seg *segment, off int64, older []generation) {
	c.seg, c.off, c.r, c.w = seg, off, 0, 0
	c.remember(older)
}

// beginAt is begin for the beginning of one of the generations that were listed.
func (c *chain) beginAt(list []generation, i int) error {
	seg, err := c.series.openListed(list[i])
	if err != nil {
		return err
	}
	c.begin(seg, 0, list[:i])
	return nil
}

func (c *chain) remember(older []generation) {
	if c.follow {
		c.known = newKnownGenerations(c.series, older)
	}
}

func (c *chain) close() {
	if c.seg != nil {
		c.seg.close()
	}
}

// position is that of the first byte that was not handed out.
func (c *chain) position() position {
	if len(c.carry) > 0 {
		return c.carryAt
	}
	return position{seg: c.seg, off: c.off}
}

// filled is the offset up to which the file was read.
func (c *chain) filled() int64 { return c.off + int64(c.w-c.r) }

// atStop says whether the file being read is the last one.
func (c *chain) atStop() bool { return c.stop != nil && c.seg != nil && c.seg.gen.id == c.stop.id }

// rawLine is one line without its line ending, as UTF-8. The text is valid until
// the next call.
type rawLine struct {
	text []byte
	at   position
	// cut: the line continues in the next one. It was longer than maxLine.
	cut bool
}

// line returns the next complete line, or false when there is none (yet).
func (c *chain) line() (rawLine, bool, error) {
	for {
		if c.carryDone || len(c.carry) > maxLine {
			return c.takeCarry(), true, nil
		}
		if c.seg != nil && c.seg.encodingKnown {
			b := c.buf[c.r:c.w]
			n, cut := c.seg.enc.lineEnd(b), false
			if n < 0 && len(b) >= maxLine {
				n, cut = c.seg.enc.cut(b), true
			}
			if n > 0 {
				return c.take(n, cut), true, nil
			}
		}
		if more, err := c.fill(); err != nil || !more {
			return rawLine{}, false, err
		}
	}
}

// block returns all complete lines that were read already, reading when there is
// none. It returns false when there is none (yet), and also when the next line
// must be taken with line because it spans files.
func (c *chain) block() (raw []byte, at position, ok bool, err error) {
	for len(c.carry) == 0 {
		if c.seg != nil && c.seg.encodingKnown {
			b := c.buf[c.r:c.w]
			n := c.seg.enc.lastLineEnd(b)
			if n == 0 && len(b) >= maxLine {
				return nil, position{}, false, nil
			}
			if n > 0 {
				at = c.position()
				c.r += n
				c.off += int64(n)
				return b[:n], at, true, nil
			}
		}
		if more, err := c.fill(); err != nil || !more {
			return nil, position{}, false, err
		}
	}
	return nil, position{}, false, nil
}

// spansFiles says that the next line has to be taken with line, not with block.
func (c *chain) spansFiles() bool { return len(c.carry) > 0 || c.w-c.r >= maxLine }

// rest returns what there is of a last line that has no end.
func (c *chain) rest() (rawLine, bool) {
	if c.seg != nil && c.w > c.r && c.seg.decideEncoding(true) {
		n := c.w - c.r
		if c.resumable {
			n = c.seg.enc.cut(c.buf[c.r:c.w])
		}
		if n > 0 {
			return c.take(n, false), true
		}
	}
	if len(c.carry) > 0 {
		return c.takeCarry(), true
	}
	return rawLine{}, false
}

func (c *chain) take(n int, cut bool) rawLine {
	ln := rawLine{at: c.position(), cut: cut}
	raw := c.buf[c.r : c.r+n]
	c.r += n
	c.off += int64(n)
	if len(c.carry) == 0 && c.seg.enc == utf8Text && utf8.Valid(raw) {
		ln.text = trimEOL(raw)
		return ln
	}
	c.text = append(c.text[:0], c.carry...)
	c.text = c.seg.enc.appendText(c.text, raw)
	if len(c.carry) > 0 && len(c.text) == len(c.carry) {
		// The newline alone came later: its CR may be in the part before.
		c.text = bytes.TrimSuffix(c.text, []byte{'\r'})
	}
	c.carry = c.carry[:0]
	ln.text = c.text
	return ln
}

func (c *chain) takeCarry() rawLine {
	ln := rawLine{at: c.carryAt}
	c.text = append(c.text[:0], c.carry...)
	ln.text = c.text
	c.carry, c.carryDone = c.carry[:0], false
	return ln
}

// fill reads more. It returns false when nothing can be read (yet).
func (c *chain) fill() (bool, error) {
	for {
		if c.seg == nil {
			if opened, err := c.open(); err != nil || !opened {
				return false, err
			}
		}
		c.makeRoom()
		space := c.buf[c.w:]
		if c.atStop() && !c.seg.gen.gzip {
			left := c.stop.size - c.filled()
			if left <= 0 {
				return false, nil
			}
			if left < int64(len(space)) {
				space = space[:left]
			}
		}
		n, err := c.seg.readAt(space, c.filled())
		if n == 0 && err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if n > 0 {
			// A file that was truncated may have outgrown the place where we
			// were. What was read is then of another text.
			if (c.follow || c.atStop()) && c.rewritten() {
				if again, err := c.truncated(); err != nil || !again {
					return false, err
				}
				continue
			}
			if n = c.skipZeros(space[:n]); n == 0 {
				continue
			}
			return c.filledBy(n), nil
		}
		if moved, err := c.advance(); err != nil || !moved {
			return false, err
		}
	}
}

// minZeros is how many zeros a file begins with if they are no text: UTF-16 may begin with one.
const minZeros = minBuffer

// skipZeros leaves out the zeros that a file begins with, and returns how much is left of what was
// read. Earlier releases of the agent gave the beginning of a log back to the file system, which
// reads as gigabytes of zeros.
func (c *chain) skipZeros(read []byte) int {
	if c.r != c.w || c.off != c.seg.zeros {
		return len(read)
	}
	text := bytes.TrimLeft(read, "\x00")
	zeros := len(read) - len(text)
	if c.off == 0 && zeros < minZeros {
		return len(read)
	}
	c.off += int64(zeros)
	c.seg.zeros = c.off
	return copy(read, text)
}

// filledBy takes over n bytes that were read behind the buffer's end. It says
// false when they are too few to tell the encoding.
func (c *chain) filledBy(n int) bool {
	c.w += n
	if c.follow {
		c.seg.refresh()
	}
	if err := c.seg.loadHead(); err != nil || !c.seg.decideEncoding(!c.follow) {
		return false
	}
	if c.off == 0 {
		bom := min(bomLen(c.seg.head), c.w-c.r)
		c.r += bom
		c.off += int64(bom)
	}
	return true
}

// makeRoom makes room behind the buffer's end. After a read that filled the buffer it is
// made larger, as there may be much more.
func (c *chain) makeRoom() {
	buf := c.buf
	if c.w == len(buf) && len(buf) < maxLine {
		buf = make([]byte, min(max(minBuffer, len(buf)*4), maxLine))
	}
	c.r, c.w, c.buf = 0, copy(buf, c.buf[c.r:c.w]), buf
}

// open opens the log if it exists by now.
func (c *chain) open() (bool, error) {
	list, err := c.series.list()
	if err != nil || len(list) == 0 {
		return false, c.tolerate(err)
	}
	// It did not exist before, so all of it is new.
	if err := c.beginAt(list, 0); err != nil {
		return false, c.tolerate(err)
	}
	return true, nil
}

// tolerate drops errors that may be transient for a follow, which polls again.
func (c *chain) tolerate(err error) error {
	if err == nil || c.follow || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// advance is called at the end of the file. It says whether reading may continue, in
// this file or in another one.
func (c *chain) advance() (bool, error) {
	if c.atStop() && !c.seg.gen.gzip && c.filled() < c.stop.size {
		return c.truncated()
	}
	if c.pinned || c.atStop() {
		return false, nil
	}
	present, err := c.series.present()
	switch {
	case err == nil && present.id == c.seg.gen.id && c.seg.f != nil:
		if !c.follow {
			return false, nil
		}
		if present.size < c.filled() || !present.mtime.Equal(c.seg.gen.mtime) && c.rewritten() {
			return c.truncated()
		}
		c.seg.gen.mtime = present.mtime
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, c.tolerate(err)
	}
	list, err := c.series.list()
	if err != nil {
		return false, c.tolerate(err)
	}
	next := c.successor(list)
	if next < 0 {
		if c.seg.f != nil && mustClose(c.seg.f) {
			c.seg.close()
		}
		return false, nil
	}
	// A writer continues with a renamed file until it opens the new one. Now that
	// the new one is not empty, ours is complete.
	if c.seg.refresh(); c.seg.f != nil && !c.seg.gen.gzip && c.seg.gen.size > c.filled() {
		return true, nil
	}
	return c.moveTo(list, next)
}

// successor finds the file that was begun after ours, -1 when there is none with
// anything in it.
func (c *chain) successor(list []generation) int {
	c.seg.refresh()
	at := indexOf(list, c.seg.gen.id)
	if at < 0 {
		// It may be compressed by now.
		i, copied := c.findCopy(list)
		if copied != nil {
			copied.close()
			at = i
		}
	}
	for i, g := range list {
		switch {
		case g.size == 0:
		case at >= 0 && i > at:
			return i
		case at < 0 && !g.mtime.Before(c.seg.gen.mtime) && !c.known.has(g) && !c.known.hasText(c.series, g):
			// Ours was deleted. What was new and is not older came after it.
			return i
		}
	}
	return -1
}

// findCopy looks for a rotated file that has the text of ours up to where we are:
// compressed, or copied before ours was truncated. The caller closes the segment.
//
// The copy of a file that was empty when it was last read cannot be told by its beginning.
// Compressed and older ones are left out: they are more likely of what came before.
func (c *chain) findCopy(list []generation) (int, *segment) {
	empty := len(c.seg.head) == 0
	order := slices.Backward(list) // older ones may begin alike: with a banner
	if empty {
		order = slices.All(list)
	}
	for i, g := range order {
		switch {
		case g.current || g.id == c.seg.gen.id || c.known.has(g):
			continue
		case empty && (g.gzip || g.size == 0 || g.mtime.Before(c.seg.gen.mtime)), !empty && !g.gzip && g.size < c.filled():
			continue
		}
		seg, err := c.series.openListed(g)
		if err != nil {
			// Renamed meanwhile, or no proper gzip: not ours to report.
			continue
		}
		if bytes.HasPrefix(seg.head, c.seg.head) {
			return i, seg
		}
		seg.close()
	}
	return -1, nil
}

// rewritten says whether the file that we have open holds another text by now. Of a
// file that was empty so far only a copy can tell, which was made when it was not.
func (c *chain) rewritten() bool {
	if len(c.seg.head) > 0 || c.filled() > 0 {
		return !c.seg.headIntact()
	}
	list, err := c.series.list()
	if err != nil || len(list) == 0 || list[len(list)-1].id != c.seg.gen.id {
		return false
	}
	_, copied := c.findCopy(list)
	if copied == nil {
		return false
	}
	copied.close()
	return true
}

// truncated continues after the file was made shorter: with the rest of the copy that
// was taken of it before, if there is one, and then with its new beginning.
func (c *chain) truncated() (bool, error) {
	list, err := c.series.list()
	if err != nil {
		return false, c.tolerate(err)
	}
	i, copied := c.findCopy(list)
	if copied != nil {
		copied.enc, copied.encodingKnown = c.seg.enc, c.seg.encodingKnown
		c.seg.close()
		if c.stop != nil {
			c.stop = &generation{id: copied.gen.id, size: c.stop.size}
		}
		c.seg = copied
		c.remember(list[:i])
		return true, nil
	}
	if !c.follow {
		return false, nil // what there was is gone
	}
	c.setCarry()
	c.carryDone = len(c.carry) > 0
	c.seg.head, c.seg.zeros, c.seg.encodingKnown = nil, 0, false
	c.seg.refresh()
	c.off, c.r, c.w = 0, 0, 0
	return true, nil
}

// setCarry keeps what was read of an unfinished line.
func (c *chain) setCarry() {
	if c.w > c.r && c.seg.decideEncoding(true) {
		at := c.position()
		c.carry = c.seg.enc.appendText(c.carry, c.buf[c.r:c.w])
		c.carryAt = at
	}
	c.r, c.w = 0, 0
}

// stillNext says whether a file that is open by now comes next. The present one does not if it was
// truncated since it was listed: then its copy comes first, and it may have another text already.
func (c *chain) stillNext(id fileID) bool {
	list, err := c.series.list()
	if err != nil {
		return false
	}
	next := c.successor(list)
	return next >= 0 && list[next].id == id
}

func (c *chain) moveTo(list []generation, i int) (bool, error) {
	seg, err := c.series.openListed(list[i])
	if err == nil && list[i].current && !c.stillNext(list[i].id) {
		seg.close()
		err = errUnstable
	}
	if err != nil {
		// Renamed or truncated since it was listed. Try again, but not forever in one call.
		if c.mismatch++; c.mismatch < 8 {
			return true, nil
		}
		c.mismatch = 0
		if c.follow {
			return false, nil
		}
		return false, fmt.Errorf("opening the next file of %s: %w", c.series.base, err)
	}
	c.mismatch = 0
	c.setCarry()
	c.seg.close()
	c.begin(seg, 0, list[:i])
	return true, nil
}
