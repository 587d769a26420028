// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

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

// relayFault is what goes wrong between a client and a healthy server.
type relayFault struct {
	stage    fault.Stage // StageBanner, StageKex or none
	reset    bool        // at stage: reset the connection (false: go silent)
	latency  time.Duration
	cutAfter int64
}

// relay puts itself between the client and the front's handler and returns when the
// connection is over.
func (f *Front) relay(ctx context.Context, client *conn, rf relayFault) {
	ctx, cancel := context.WithCancel(ctx)
	near, far := net.Pipe()
	server := &pipeConn{Conn: far, client: client}
	r := &relayed{relayFault: rf, client: client}
	// Each direction that ends takes the other with it: SSH has no use for a connection
	// that is closed on one side.
	end := func() {
		cancel()
		_ = near.Close()
		_ = client.Close()
	}
	stop := context.AfterFunc(ctx, end)
	defer stop()

	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = server.Close() }()
		f.handler(ctx, server)
	})
	// Reading goes on while earlier bytes are on their way, as on a long wire; the bound
	// is only there to hold memory down.
	up, down := make(chan chunk, 256), make(chan chunk, 256)
	wg.Go(func() { r.read(ctx, up, client) })
	wg.Go(func() { r.read(ctx, down, near) })
	wg.Go(func() {
		defer end()
		r.deliver(ctx, near, up, nil)
	})
	wg.Go(func() {
		defer end()
		var limit *stageLimit
		if rf.stage != "" {
			limit = &stageLimit{stage: rf.stage}
		}
		r.deliver(ctx, client, down, limit)
	})
	wg.Wait()
}

// pipeConn is the server's end of a relay.
type pipeConn struct {
	net.Conn
	client *conn
}

// Reset resets the client's connection: a pipe has no RST of its own.
func (p *pipeConn) Reset() {
	p.client.Reset()
	_ = p.Close()
}

// RemoteAddr and LocalAddr are those of the TCP connection, not of the pipe.
func (p *pipeConn) RemoteAddr() net.Addr { return p.client.RemoteAddr() }

// LocalAddr is documented with RemoteAddr.
func (p *pipeConn) LocalAddr() net.Addr { return p.client.LocalAddr() }

// stageLimit finds the byte at which a stage begins in the server's stream.
type stageLimit struct {
	stage   fault.Stage
	seen    []byte
	reached bool
}

// allow returns how many bytes of p may still pass.
func (s *stageLimit) allow(p []byte) int {
	if s.reached {
		return 0
	}
	before := len(s.seen)
	s.seen = append(s.seen, p...)
	n, known := stageEnd(s.stage, s.seen)
	if !known || n > len(s.seen) {
		return len(p)
	}
	s.reached = true
	return max(n-before, 0)
}

// relayed is one connection that goes through a relay.
type relayed struct {
	relayFault
	client *conn
	moved  atomic.Int64 // bytes, both directions
}

// chunk is some bytes and the time at which they arrive.
type chunk struct {
	data []byte
	due  time.Time
}

// read puts what comes from src on the wire, and closes the wire when src ends.
func (r *relayed) read(ctx context.Context, wire chan<- chunk, src io.Reader) {
	defer close(wire)
	for {
		buf := make([]byte, 32<<10)
		n, err := src.Read(buf)
		if n > 0 {
			select {
			case wire <- chunk{buf[:n], time.Now().Add(r.latency)}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if errors.Is(err, syscall.ECONNRESET) {
				r.client.Reset()
			}
			return
		}
	}
}

// deliver writes what arrives on the wire to dst until either ends, or the connection is
// cut. From the byte at limit on nothing is written any more.
func (r *relayed) deliver(ctx context.Context, dst io.Writer, wire <-chan chunk, limit *stageLimit) {
	for c := range wire {
		if d := time.Until(c.due); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
		}
		if limit != nil {
			c.data = c.data[:limit.allow(c.data)]
		}
		over := int64(-1)
		if r.cutAfter > 0 {
			over = r.moved.Add(int64(len(c.data))) - r.cutAfter
			c.data = c.data[:max(int64(len(c.data))-max(over, 0), 0)]
		}
		if len(c.data) > 0 {
			if _, err := dst.Write(c.data); err != nil {
				return
			}
		}
		if over >= 0 || limit != nil && limit.reached && r.reset {
			r.client.Reset()
			return
		}
	}
}
