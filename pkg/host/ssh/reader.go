// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// reader is the receiving half of a stream, or its standard error. A goroutine reads ahead by at most two chunks,
// because a read of ssh.Channel cannot be interrupted. Beyond that the server is held
// back by the window of the channel; other channels are not affected.
type reader struct {
	s      *stream
	source io.Reader // of s.ch

	full chan chunk  // read, in order
	free chan []byte // to be read into
	// rest is what the goroutine had read and not delivered when the stream ended.
	// It is written before full is closed.
	rest *chunk

	// started says that a goroutine takes what comes.
	started atomic.Bool

	mu      sync.Mutex // held by the one Read or WriteTo in progress; guards what follows
	direct  bool       // the stream has ended: reads do not block, and need no goroutine
	current []byte
	buffer  []byte // what current is a part of
	err     error
}

type chunk struct {
	data []byte
	err  error
}

// Chunks begin small, since thousands of streams may carry a line now and then, and grow while
// they are filled. The largest ones are two of those of who passes them on in parts of a bit less than 32 KiB.
const (
	minChunk = 4 << 10
	maxChunk = 64<<10 - 32
)

func newReader(s *stream, source io.Reader) *reader {
	return &reader{s: s, source: source, full: make(chan chunk, 1), free: make(chan []byte, 2)}
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(p, r.current)
	r.current = r.current[n:]
	return n, nil
}

// WriteTo implements io.WriterTo, which saves io.Copy a copy.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var total int64
	for {
		if err := r.fill(); errors.Is(err, io.EOF) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(r.current)
		total += int64(n)
		r.current = r.current[n:]
		if err != nil {
			return total, err
		}
		if len(r.current) > 0 {
			return total, io.ErrShortWrite
		}
	}
}

// fill makes sure that current has data, or returns why there is no more.
func (r *reader) fill() error {
	select {
	case <-r.s.closing:
		return r.s.closedError()
	default:
	}
	for len(r.current) == 0 {
		if r.err != nil {
			return r.err
		}
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) next() error {
	if r.started.CompareAndSwap(false, true) {
		r.direct = !r.s.conn.spawn(r.pump)
	}
	if r.direct {
		if r.buffer == nil {
			r.buffer = make([]byte, minChunk)
		}
		n, err := r.source.Read(r.buffer[:cap(r.buffer)])
		r.take(chunk{r.buffer[:n], err})
		return nil
	}
	if r.buffer != nil {
		r.free <- r.buffer // never blocks: there are two at most
		r.buffer = nil
	}
	select {
	case c, ok := <-r.full:
		if ok {
			r.take(c)
			return nil
		}
		r.direct = true
		if r.rest != nil {
			r.take(*r.rest)
		}
		return nil
	case <-r.s.closing:
		return r.s.closedError()
	}
}

func (r *reader) take(c chunk) {
	r.buffer, r.current = c.data, c.data
	switch {
	case errors.Is(c.err, io.EOF):
		r.err = r.s.eof()
	case c.err != nil:
		r.err = r.s.endError()
	}
}

// pump reads ahead until the stream ends, or our side closes it.
func (r *reader) pump() {
	size, buffers := minChunk, 0
	for {
		var b []byte
		if buffers < cap(r.free) {
			buffers++
		} else {
			select {
			case b = <-r.free:
			case <-r.s.closing:
				r.discard()
				return
			case <-r.s.ended:
				close(r.full)
				return
			}
		}
		if cap(b) < size {
			b = make([]byte, size)
		}
		n, err := r.source.Read(b[:cap(b)])
		c := chunk{b[:n], err}
		select {
		case r.full <- c:
		case <-r.s.closing:
			r.discard()
			return
		case <-r.s.ended:
			r.rest = &c
			close(r.full)
			return
		}
		if err != nil {
			return
		}
		if n == cap(b) && size < maxChunk {
			size = min(2*size, maxChunk)
		}
	}
}

// discard takes what came before the server learned that the stream was closed, so that it is not kept until then.
func (r *reader) discard() {
	// The error can only be the end.
	_, _ = io.Copy(io.Discard, r.source)
}

// abandon discards what comes on a stream that is closed, unless somebody has begun to read it.
func (r *reader) abandon() {
	if r.started.CompareAndSwap(false, true) {
		r.s.conn.spawn(r.discard) // false: the connection is over, with what it kept
	}
}
