// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
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
	// stderr keeps the end of standard error, unless stderrApart reads all of it.
	stderr      *tail
	stderrApart *reader
	// signals says whether a command that still runs is told to end.
	signals func() bool

	// closing is closed when our side closes the stream, ended when the server has, or
	// the connection is over; drained when stderr has all of standard error.
	closing, ended, drained chan struct{}

	mu sync.Mutex
	// cause is why our side closed the stream; nil while it has not.
	cause *Error
	// status is how the remote command ended; nil while unknown.
	status *exitStatus
	// running is set once the request to run a command is sent.
	running bool
}

// exitStatus is what the server said about the end of a command.
type exitStatus struct {
	code   int
	signal string
}

// newStream takes over an open channel until the end of ctx. It is called by a goroutine of
// the connection.
func newStream(ctx context.Context, c *conn, spec channelSpec, ch ssh.Channel, requests <-chan *ssh.Request) *stream {
	s := &stream{
		conn:    c,
		kind:    spec.kind,
		ch:      ch,
		stderr:  &tail{limit: stderrLimit},
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
		drained: make(chan struct{}),
		signals: func() bool { return spec.ends == nil || spec.ends(context.Cause(ctx)) },
	}
	s.stdin = newWriter(s)
	s.stdout = newReader(s, ch)
	if spec.stderrApart {
		s.stderrApart = newReader(s, ch.Stderr())
		close(s.drained)
	} else {
		c.wg.Go(func() {
			defer close(s.drained)
			// It must be read in any case: it shares the flow control window
			// with standard output. The error can only be the end. Most streams have none, so
			// that a large buffer would be wasted on them.
			_, _ = io.CopyBuffer(s.stderr, ch.Stderr(), make([]byte, minChunk))
		})
	}
	stop := context.AfterFunc(ctx, func() { s.close(contextError(ctx, LayerSession, c.address)) })
	c.wg.Go(func() {
		defer stop()
		s.serve(requests)
	})
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

// closeByCaller ends the stream because its caller does not need it any more.
func (s *stream) closeByCaller() {
	s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: s.conn.address})
}

// linger accounts for a channel that we closed and the server still has.
func (s *stream) linger() {
	p := s.conn.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.conn.lingering[s.kind]++
	s.conn.releasedLocked()
}

// hangUp closes the channel on the server. Both messages may block while the
// connection does, so this has a goroutine of its own.
func (s *stream) hangUp() {
	s.stdout.abandon()
	if s.stderrApart != nil {
		s.stderrApart.abandon()
	}
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running && s.signals() {
		// OpenSSH keeps a command running after its channel was closed, and counts its session. On Windows, since 8.1, it
		// terminates the command, with all that this has started. Servers that know no signals ignore this.
		_, _ = s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Signal string }{string(ssh.SIGTERM)}))
	}
	_ = s.ch.Close() // fails only if it is closed already
}

// finish gives the channel back.
func (s *stream) finish(lingering bool) {
	close(s.ended)
	c := s.conn
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if lingering {
		c.lingering[s.kind]--
	}
	c.used[s.kind]--
	c.releasedLocked()
}

// request sends a channel request that the server must answer, and waits for the answer or
// the end of ctx. A refusal is an error of the given layer with the given explanation.
func (s *stream) request(ctx context.Context, name string, payload []byte, layer Layer, refusal error) error {
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
		return s.conn.loss()
	}
	select {
	case a := <-answers:
		switch {
		case a.err != nil:
			return s.endError()
		case !a.ok:
			return &Error{Layer: layer, Reason: ReasonSessionRefused, Address: s.conn.address, Err: refusal}
		}
		return nil
	case <-ctx.Done():
		return contextError(ctx, LayerSession, s.conn.address)
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
