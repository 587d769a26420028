// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package faultnet is the TCP face of a host stand-in: one listener that counts its
// connections, loses power, and misbehaves as told below the level of SSH. The same code
// stands in front of the in-process server, of Debian's sshd and of a Wine host, so a
// fault looks the same on all of them. It knows of SSH only where the unencrypted start
// of a connection ends.
package faultnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// Handler serves one connection and returns when the connection has ended. It owns conn
// and must return soon after ctx is done.
type Handler func(ctx context.Context, conn net.Conn)

// Front is one address that a host listens on. Up, Down, SetFault and Close must not be
// called at the same time as each other; everything else may happen concurrently.
type Front struct {
	handler Handler
	within  Within
	hold    *Hold // keeps the port while nobody listens

	received atomic.Int64 // bytes, on all connections so far

	conns sync.WaitGroup // one per accepted connection, and one for the accept loop

	mu        sync.Mutex // guards what follows; never held during I/O on a connection
	fault     fault.Fault
	up        bool
	closed    bool
	listener  *net.TCPListener
	gate      chan struct{} // closed: bytes may move
	open      map[*conn]struct{}
	ctx       context.Context // of the connections since the last Up
	powerLoss context.CancelFunc
}

// Within calls f where the sockets of a front are to be made: in a network namespace.
type Within func(f func() error) error

// New makes a front for host (an IPv4 address) and port (0: any free one). It is switched
// off. A nil within is the network of this process.
func New(within Within, host string, port int, handler Handler) (*Front, error) {
	if within == nil {
		within = func(f func() error) error { return f() }
	}
	open := make(chan struct{})
	close(open)
	front := &Front{handler: handler, within: within, gate: open, open: map[*conn]struct{}{}}
	err := within(func() (err error) {
		front.hold, err = HoldPort(host, port)
		return err
	})
	if err != nil {
		return nil, err
	}
	return front, nil
}

// Addr is the address of the front; it stays the same for its whole life.
func (f *Front) Addr() *net.TCPAddr { return f.hold.Addr() }

// Connections is the number of connections that are open now.
func (f *Front) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// Received is how many bytes clients have sent so far, on all connections.
func (f *Front) Received() int64 { return f.received.Load() }

// SetFault makes new connections fail as told. Of the faults only those of TCP and of the
// unencrypted start of SSH are acted upon.
func (f *Front) SetFault(ft fault.Fault) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	if ft.Freeze && !f.fault.Freeze {
		f.gate = make(chan struct{})
	}
	if !ft.Freeze && f.fault.Freeze {
		close(f.gate)
	}
	f.fault = ft
	return f.listenOrNotLocked()
}

// Up switches the front on.
func (f *Front) Up() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return net.ErrClosed
	}
	if !f.up {
		f.up = true
		f.ctx, f.powerLoss = context.WithCancel(context.Background())
	}
	return f.listenOrNotLocked()
}

// Down switches the front off: the port is closed, every connection ends, and Down
// returns when their handlers have.
func (f *Front) Down() {
	f.Cut()
	f.conns.Wait()
}

// Cut is Down without waiting for what serves the connections: nobody hears any more how programs end that lose their power.
func (f *Front) Cut() {
	f.mu.Lock()
	if f.up {
		f.up = false
		f.powerLoss()
	}
	_ = f.listenOrNotLocked() // stopping to listen does not fail
	open := make([]*conn, 0, len(f.open))
	for c := range f.open {
		open = append(open, c)
	}
	f.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// Close switches the front off for good and gives its port back.
func (f *Front) Close() error {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	f.mu.Unlock()
	f.Down()
	if closed {
		return nil
	}
	return f.hold.Release()
}

// listenOrNotLocked makes the listener agree with power and fault.
func (f *Front) listenOrNotLocked() error {
	want := f.up && !f.fault.RefuseTCP && !f.closed
	switch {
	case want && f.listener == nil:
		var l *net.TCPListener
		err := f.within(func() (err error) {
			l, err = net.ListenTCP("tcp4", f.hold.Addr())
			return err
		})
		if err != nil {
			return err
		}
		f.listener = l
		ctx := f.ctx
		f.conns.Go(func() { f.accept(ctx, l) })
	case !want && f.listener != nil:
		stopListening(f.listener) // the accept loop ends
		f.listener = nil
	}
	return nil
}

// stopListening closes a listener, and nobody listens there any more when it returns. Closing alone would not do: a process that
// is being forked at that moment, for whatever program, has the socket too until it runs that program, and as long as one listens no
// other socket can at the same address.
func stopListening(l *net.TCPListener) {
	if raw, err := l.SyscallConn(); err == nil { // it is open
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	_ = l.Close()
}

func (f *Front) accept(ctx context.Context, l net.Listener) {
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptors, for a moment
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		f.mu.Lock()
		if ctx.Err() != nil {
			f.mu.Unlock()
			_ = nc.Close()
			return
		}
		c := &conn{TCPConn: nc.(*net.TCPConn), front: f, done: make(chan struct{})}
		f.open[c] = struct{}{}
		ft := f.fault
		f.mu.Unlock()
		f.conns.Go(func() {
			defer func() { _ = c.Close() }()
			f.serve(ctx, c, ft)
		})
	}
}

func (f *Front) serve(ctx context.Context, c *conn, ft fault.Fault) {
	switch {
	case ft.ResetAt == fault.StageAccept:
		c.Reset()
		return
	case ft.HangAt == fault.StageAccept:
		drain(c)
		return
	case ft.GarbageBanner:
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request")
		_ = c.CloseWrite()
		drain(c) // closing with bytes unread would be a reset
		return
	}
	if ft.SlowBanner > 0 {
		t := time.NewTimer(ft.SlowBanner)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
	early := fault.Stage("")
	for _, s := range []fault.Stage{ft.ResetAt, ft.HangAt} {
		if s == fault.StageBanner || s == fault.StageKex {
			early = s
		}
	}
	if early == "" && ft.Latency == 0 && ft.CutAfterBytes == 0 {
		f.handler(ctx, c)
		return
	}
	f.relay(ctx, c, relayFault{
		stage: early, reset: early != "" && early == ft.ResetAt, latency: ft.Latency, cutAfter: ft.CutAfterBytes,
	})
}

// drain reads until the peer or the front closes the connection.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// passed blocks until bytes may move.
func (f *Front) passed(done <-chan struct{}) error {
	for {
		f.mu.Lock()
		gate := f.gate
		f.mu.Unlock()
		select {
		case <-done:
			return net.ErrClosed
		case <-gate:
		}
		f.mu.Lock()
		same := gate == f.gate
		f.mu.Unlock()
		if same {
			return nil
		}
	}
}

// conn is an accepted connection that its front counts and can freeze.
type conn struct {
	*net.TCPConn
	front *Front
	once  sync.Once
	done  chan struct{}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.front.received.Add(int64(n))
	if gerr := c.front.passed(c.done); gerr != nil {
		return 0, gerr
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.front.passed(c.done); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
}

// ReadFrom hides the method of TCPConn, which would move bytes around Write.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(writerOnly{c}, r) }

// WriteTo hides the method of TCPConn, which would move bytes around Read.
func (c *conn) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, readerOnly{c}) }

type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.done)
		err = c.TCPConn.Close()
		c.front.mu.Lock()
		delete(c.front.open, c)
		c.front.mu.Unlock()
	})
	return err
}

// Reset closes the connection with RST, so that the peer sees "connection reset".
func (c *conn) Reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}
