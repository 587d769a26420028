// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// headBytes is how much of the beginning of a file identifies it: enough to
// hold the time of a line or two.
const headBytes = 1024

// segment is an open generation of a log. Offsets are those of the text, after
// decompression.
type segment struct {
	gen generation
	// f is nil once the file had to be closed.
	f *os.File
	// head is what the file begins with, as far as it existed when last
	// read, at most headBytes.
	head []byte

	// zeros is how many bytes at the beginning were found to be zero.
	zeros int64

	encodingKnown bool
	enc           encoding

	zip    *gzip.Reader
	zipOff int64
}

// open opens the generation that has a name.
func (s series) open(name string) (*segment, error) {
	f, info, err := s.root.open(path.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	seg := &segment{f: f, gen: generation{rotationName: rotationName{name: name, gzip: strings.HasSuffix(name, ".gz")}}}
	if seg.gen.id, err = identify(f, info); err != nil {
		seg.close()
		return nil, err
	}
	seg.gen.size, seg.gen.mtime = info.Size(), info.ModTime()
	return seg, nil
}

// openListed opens a generation that was listed, and no other that has its name by
// now. It reads its beginning.
func (s series) openListed(g generation) (*segment, error) {
	seg, err := s.open(g.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errUnstable
	}
	if err != nil {
		return nil, err
	}
	if seg.gen.id != g.id {
		err = errUnstable
	} else {
		err = seg.loadHead()
	}
	if err != nil {
		seg.close()
		return nil, err
	}
	return seg, nil
}

// close closes the file. An error loses nothing, as it was only read.
func (s *segment) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}

// loadHead completes head as far as the file goes by now.
func (s *segment) loadHead() error {
	if len(s.head) == headBytes || s.f == nil {
		return nil
	}
	head := make([]byte, headBytes)
	n, err := s.readAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// With another beginning it is another text, which [segment.headIntact]
	// detects.
	if bytes.HasPrefix(head[:n], s.head) {
		s.head = head[:n]
	}
	return nil
}

// headIntact says whether the file still begins as it did. If not, it was
// truncated and written again.
func (s *segment) headIntact() bool {
	if s.f == nil || s.gen.gzip {
		return true
	}
	now := make([]byte, len(s.head))
	n, err := s.f.ReadAt(now, 0)
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(now[:n], s.head)
}

// decideEncoding detects the encoding from the beginning of the file. It returns false
// while that is too short and more may come.
func (s *segment) decideEncoding(final bool) bool {
	if s.encodingKnown {
		return true
	}
	if err := s.loadHead(); err != nil {
		return false
	}
	if len(s.head) < 4 && !final && bytes.IndexByte(s.head, '\n') < 0 {
		return false
	}
	s.enc, s.encodingKnown = detectEncoding(s.head), true
	return true
}

// readAt is like [io.ReaderAt] but may return less than asked for without an
// error. At the end it returns 0 and io.EOF.
func (s *segment) readAt(p []byte, off int64) (int, error) {
	if s.f == nil {
		return 0, io.EOF
	}
	if s.gen.gzip {
		return s.readGzip(p, off)
	}
	n, err := s.f.ReadAt(p, off)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s: %w", s.gen.name, err)
	}
	return n, err
}

func (s *segment) readGzip(p []byte, off int64) (int, error) {
	if s.zip == nil || off < s.zipOff {
		if err := s.rewindGzip(); err != nil {
			return 0, err
		}
	}
	if skip := off - s.zipOff; skip > 0 {
		n, err := io.CopyN(io.Discard, s.zip, skip)
		s.zipOff += n
		if err != nil {
			return 0, s.gzipError(err)
		}
	}
	n, err := io.ReadFull(s.zip, p)
	s.zipOff += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, s.gzipError(err)
}

func (s *segment) rewindGzip() error {
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s: %w", s.gen.name, err)
	}
	zip, err := gzip.NewReader(bufio.NewReaderSize(s.f, 64<<10))
	if err != nil {
		return s.gzipError(err)
	}
	s.zip, s.zipOff = zip, 0
	return nil
}

// gzipError treats an archive that breaks off as ended: what it has was read,
// and the rest never comes.
func (s *segment) gzipError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return fmt.Errorf("decompressing %s: %w", s.gen.name, err)
}

// refresh brings size and modification time up to date.
func (s *segment) refresh() {
	if s.f == nil {
		return
	}
	if info, err := s.f.Stat(); err == nil {
		s.gen.size, s.gen.mtime = info.Size(), info.ModTime()
	}
}

// mark returns the mark by which this file is found again.
func (s *segment) mark(off int64) fileMark {
	if s.headIntact() {
		s.refresh()
	}
	// An error leaves the head shorter, and not wrong.
	_ = s.loadHead()
	return fileMark{ID: s.gen.id.String(), Offset: off, HeadLen: len(s.head), Head: headSum(s.head), Modified: s.gen.mtime.UnixNano()}
}

// matches says whether the file begins like the one that was marked and is long
// enough to be it.
func (s *segment) matches(m fileMark) bool {
	if m.HeadLen > len(s.head) || headSum(s.head[:m.HeadLen]) != m.Head {
		return false
	}
	return s.gen.gzip || s.gen.size >= m.Offset
}
