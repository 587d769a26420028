// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sshpool

import (
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// stream is an open channel. It adds to ssh.Channel what that lacks: reads and writes
// that end when the stream is closed on our side, even if the server never answers.
type stream struct {
	conn *conn
	kind kind
	ch   ssh.Channel

	stdin  *writer
	stdout *reader
	stderr *tail

	// closing is closed when our side closes the stream, ended when the server has, or
	// the connection is over; drained when all of standard error was read.
	closing, ended, drained chan struct{}

	mu sync.Mutex
	// cause is why our side closed the stream; nil while it has not.
	cause *Error
	// status is how the remote command ended; nil while unknown.
	status *exitStatus
	// running is set once the server was asked to run a command.
	running bool
	// forget ends the watch of the caller's context.
	forget func() bool
}

// exitStatus is what the server said about the end of a command.
type exitStatus struct {
	code   int
	signal string
}

// newStream takes over an open channel. It is called by a goroutine of the connection.
func newStream(c *conn, k kind, ch ssh.Channel, requests <-chan *ssh.Request) *stream {
	s := &stream{
		conn:    c,
		kind:    k,
		ch:      ch,
		stderr:  &tail{limit: stderrLimit},
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
		drained: make(chan struct{}),
		forget:  func() bool { return true },
	}
	s.stdin = newWriter(s)
	s.stdout = newReader(s)
	c.wg.Go(func() {
		defer close(s.drained)
		// It must be read even if nobody wants it: it shares the flow control window
		// with standard output. The error can only be the end.
		_, _ = io.Copy(s.stderr, ch.Stderr())
	})
	c.wg.Go(func() { s.serve(requests) })
	return s
}

// serve handles what the server says about the channel until it closes it.
func (s *stream) serve(requests <-chan *ssh.Request) {
	closing := s.closing
	lingering := false
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				s.finish(lingering)
				return
			}
			s.handle(r)
		case <-closing:
			closing = nil
			lingering = true
			s.linger()
			s.conn.wg.Go(s.hangUp)
		}
	}
}

func (s *stream) handle(r *ssh.Request) {
	switch r.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if ssh.Unmarshal(r.Payload, &m) == nil {
			s.setStatus(exitStatus{code: int(m.Status)})
		}
	case "exit-signal":
		var m struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}
		if ssh.Unmarshal(r.Payload, &m) == nil {
			s.setStatus(exitStatus{code: 128 + signalNumbers[ssh.Signal(m.Signal)], signal: m.Signal})
		}
	default:
		if r.WantReply {
			// An error means that the connection is over, which run will see.
			_ = r.Reply(false, nil)
		}
	}
}

// signalNumbers are those of POSIX for the signals of RFC 4254, section 6.10.
var signalNumbers = map[ssh.Signal]int{
	ssh.SIGHUP: 1, ssh.SIGINT: 2, ssh.SIGQUIT: 3, ssh.SIGILL: 4, ssh.SIGABRT: 6, ssh.SIGFPE: 8, ssh.SIGKILL: 9,
	ssh.SIGUSR1: 10, ssh.SIGSEGV: 11, ssh.SIGUSR2: 12, ssh.SIGPIPE: 13, ssh.SIGALRM: 14, ssh.SIGTERM: 15,
}

// setStatus records how the command ended, unless it ended because we closed it.
func (s *stream) setStatus(e exitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && s.status == nil {
		s.status = &e
	}
}

// closeWith makes the end of ctx close the stream.
func (s *stream) closeWith(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.close(contextError(ctx, LayerSession, s.conn.address)) })
	s.mu.Lock()
	s.forget = stop
	s.mu.Unlock()
	select {
	case <-s.ended:
		stop()
	default:
	}
}

// close ends the stream on our side. It never blocks, and does nothing if the stream is closed.
func (s *stream) close(cause *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	select {
	case <-s.ended:
		// What was received stays readable after the remote end is done.
		if s.kind == kindSession {
			return
		}
	default:
	}
	s.cause = cause
	close(s.closing)
}

// linger accounts for a channel that we closed and the server still has.
func (s *stream) linger() {
	p := s.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.conn.lingering[s.kind]++
	s.conn.releasedLocked()
}

// hangUp tells the server that we are done. Both messages may block while the
// connection does, so this has a goroutine of its own.
func (s *stream) hangUp() {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running {
		// OpenSSH keeps a command running after its channel was closed, and counts its session.
		// Servers that know no signals ignore this.
		_, _ = s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Signal string }{string(ssh.SIGTERM)}))
	}
	_ = s.ch.Close() // fails only if it is closed already
}

// finish gives the channel back.
func (s *stream) finish(lingering bool) {
	close(s.ended) // before forget is read: see closeWith
	s.mu.Lock()
	forget := s.forget
	s.mu.Unlock()
	forget()

	c := s.conn
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if lingering {
		c.lingering[s.kind]--
	}
	c.used[s.kind]--
	c.releasedLocked()
}

// request sends a channel request that the server must answer, and waits for the answer or the end of ctx.
func (s *stream) request(ctx context.Context, name string, payload []byte) (bool, error) {
	type answer struct {
		ok  bool
		err error
	}
	answers := make(chan answer, 1)
	send := func() {
		ok, err := s.ch.SendRequest(name, true, payload)
		answers <- answer{ok, err}
	}
	if !s.conn.spawn(send) {
		return false, s.conn.loss()
	}
	select {
	case a := <-answers:
		if a.err != nil {
			return false, s.endError()
		}
		return a.ok, nil
	case <-ctx.Done():
		return false, contextError(ctx, LayerSession, s.conn.address)
	}
}

// endError is why the stream ended before it was done.
func (s *stream) endError() *Error {
	s.mu.Lock()
	cause := s.cause
	s.mu.Unlock()
	if cause != nil {
		return cause
	}
	if s.conn.over() {
		return s.conn.loss()
	}
	return &Error{Layer: LayerSession, Reason: ReasonConnectionLost, Address: s.conn.address, Err: errNoStatus}
}

// eof is what the end of standard output means: the command closed it, or the connection broke.
func (s *stream) eof() error {
	s.mu.Lock()
	known := s.status != nil
	s.mu.Unlock()
	if !known && s.conn.over() {
		return s.conn.loss()
	}
	return io.EOF
}

// reader is the receiving half of a stream. A goroutine reads ahead by at most two chunks,
// because a read of ssh.Channel cannot be interrupted. Beyond that the server is held
// back by the window of the channel; other channels are not affected.
type reader struct {
	s        *stream
	turn     chan struct{} // held by the one Read or WriteTo in progress
	deadline deadline

	full chan chunk  // read, in order
	free chan []byte // to be read into
	// rest is what the goroutine had read and not delivered when the stream ended.
	// It is written before full is closed.
	rest *chunk

	// These belong to the holder of turn.
	started bool
	direct  bool // the stream has ended: reads do not block, and need no goroutine
	current []byte
	buffer  []byte // what current is a part of
	err     error
}

type chunk struct {
	data []byte
	err  error
}

// Chunks begin small, since thousands of streams may carry a line now and then, and grow while
// they are filled.
const (
	minChunk = 4 << 10
	maxChunk = 64 << 10
)

func newReader(s *stream) *reader {
	return &reader{s: s, turn: make(chan struct{}, 1), full: make(chan chunk, 1), free: make(chan []byte, 2)}
}

func (r *reader) begin() error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-r.s.closing:
		return r.s.closedError()
	case <-r.deadline.wait():
		return errDeadline
	}
}

func (r *reader) end() { <-r.turn }

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.begin(); err != nil {
		return 0, err
	}
	defer r.end()
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
	if err := r.begin(); err != nil {
		return 0, err
	}
	defer r.end()
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
	case <-r.deadline.wait():
		return errDeadline
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
	if !r.started {
		r.started = true
		r.direct = !r.s.conn.spawn(r.pump)
	}
	if r.direct {
		if r.buffer == nil {
			r.buffer = make([]byte, minChunk)
		}
		n, err := r.s.ch.Read(r.buffer[:cap(r.buffer)])
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
	case <-r.deadline.wait():
		return errDeadline
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
				return
			case <-r.s.ended:
				close(r.full)
				return
			}
		}
		if cap(b) < size {
			b = make([]byte, size)
		}
		n, err := r.s.ch.Read(b[:cap(b)])
		c := chunk{b[:n], err}
		select {
		case r.full <- c:
		case <-r.s.closing:
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
			size *= 2
		}
	}
}

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
