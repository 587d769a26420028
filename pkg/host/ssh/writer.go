// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"errors"
	"io"
	"sync"
)

// writer is the sending half of a stream. A goroutine does the writes, because a write of
// ssh.Channel cannot be interrupted; it has a copy of the data, because the caller's
// is only lent.
type writer struct {
	s *stream

	jobs    chan job
	results chan error

	mu      sync.Mutex // held by the one Write or Close in progress; guards what follows
	started bool
	closed  bool
	buffer  []byte
}

// job is data to be written, or the end of data.
type job struct {
	data []byte
	end  bool
}

func newWriter(s *stream) *writer {
	return &writer{s: s, jobs: make(chan job), results: make(chan error, 1)}
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	written := 0
	for written < len(p) {
		part := p[written:min(len(p), written+maxChunk)]
		if err := w.do(job{data: part}); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// Close signals the end of the data to the other side.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if err := w.do(job{end: true}); !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil // the other side needs no more
}

func (w *writer) do(j job) error {
	select {
	case <-w.s.closing:
		return w.s.closedError() // nothing is sent any more, but the buffer of the last job may still be
	default:
	}
	w.buffer = append(w.buffer[:0], j.data...)
	j.data = w.buffer
	if !w.started {
		w.started = true
		if !w.s.conn.spawn(w.pump) {
			return w.s.conn.loss()
		}
	}
	select {
	case w.jobs <- j:
	case <-w.s.closing:
		return w.s.closedError()
	case <-w.s.ended:
		return w.endError()
	}
	select {
	case err := <-w.results:
		if err != nil {
			return w.endError()
		}
		return nil
	case <-w.s.closing:
		return w.s.closedError()
	}
}

// endError says why the other side accepts no more data.
func (w *writer) endError() error {
	if w.s.conn.over() {
		return w.s.conn.loss()
	}
	return io.ErrClosedPipe
}

func (w *writer) pump() {
	for {
		select {
		case j := <-w.jobs:
			var err error
			if j.end {
				err = w.s.ch.CloseWrite()
			} else {
				_, err = w.s.ch.Write(j.data)
			}
			w.results <- err
		case <-w.s.closing:
			return
		case <-w.s.ended:
			return
		}
	}
}
