// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"errors"
	"io"
)

// writer is the sending half of a stream. A goroutine does the writes, because a write of
// ssh.Channel cannot be interrupted; it has a copy of the data, because the caller's
// is only lent.
type writer struct {
	s        *stream
	turn     chan struct{}
	deadline deadline

	jobs    chan job
	results chan error

	// These belong to the holder of turn.
	started bool
	pending bool // a job of an interrupted write is still being done
	closed  bool
	buffer  []byte
}

// job is data to be written, or the end of data.
type job struct {
	data []byte
	end  bool
}

func newWriter(s *stream) *writer {
	return &writer{s: s, turn: make(chan struct{}, 1), jobs: make(chan job), results: make(chan error, 1)}
}

func (w *writer) begin() error {
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-w.s.closing:
		return w.s.closedError()
	case <-w.deadline.wait():
		return errDeadline
	}
}

func (w *writer) end() { <-w.turn }

// Write implements io.Writer. After a write that was interrupted by a deadline it is
// not known how much of the last 64 KiB was sent.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	defer w.end()
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	written := 0
	for written < len(p) {
		if err := w.settle(); err != nil {
			return written, err
		}
		part := p[written:min(len(p), written+maxChunk)]
		w.buffer = append(w.buffer[:0], part...)
		if err := w.do(job{data: w.buffer}); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// Close tells the other side that no more data will come.
func (w *writer) Close() error {
	if err := w.begin(); err != nil {
		return err
	}
	defer w.end()
	if w.closed {
		return nil
	}
	if err := w.settle(); err != nil {
		return err
	}
	w.closed = true
	if err := w.do(job{end: true}); !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil // the other side needs no more
}

// settle waits for the job of an interrupted write.
func (w *writer) settle() error {
	if !w.pending {
		return nil
	}
	return w.wait()
}

func (w *writer) do(j job) error {
	select {
	case <-w.s.closing:
		return w.s.closedError()
	case <-w.deadline.wait():
		return errDeadline // nothing is sent after it
	default:
	}
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
	w.pending = true
	return w.wait()
}

func (w *writer) wait() error {
	select {
	case err := <-w.results:
		w.pending = false
		if err != nil {
			return w.endError()
		}
		return nil
	case <-w.s.closing:
		return w.s.closedError()
	case <-w.deadline.wait():
		return errDeadline
	}
}

// endError says why the other side takes no more data.
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
