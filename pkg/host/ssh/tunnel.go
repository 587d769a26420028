// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// tunnel is a connection to a host through one to its bastion, which it owns: each ends with the other one.
type tunnel struct {
	ssh.Channel

	hop *hop
	// to is where the bastion has connected to.
	to netip.AddrPort

	closed, expired atomic.Bool

	mu       sync.Mutex
	deadline *time.Timer // of SetDeadline; nil: none
}

var _ net.Conn = (*tunnel)(nil)

// Read implements [net.Conn].
func (t *tunnel) Read(b []byte) (int, error) {
	n, err := t.Channel.Read(b)
	return n, t.explain(err)
}

// Write implements [net.Conn].
func (t *tunnel) Write(b []byte) (int, error) {
	n, err := t.Channel.Write(b)
	return n, t.explain(err)
}

// explain says why the connection is over: for the channel every end is the end of data.
func (t *tunnel) explain(err error) error {
	if err == nil {
		return nil
	}
	switch lost := t.hop.lost(); {
	case t.expired.Load():
		return os.ErrDeadlineExceeded
	case t.closed.Load():
		return net.ErrClosed
	case lost != nil:
		return lost
	}
	return err
}

// Close ends the connection to the bastion, which unblocks everything that waits for either. It may be called more than once.
func (t *tunnel) Close() error {
	t.closed.Store(true)
	_ = t.SetDeadline(time.Time{})
	return t.hop.wire.Close()
}

// SetDeadline implements [net.Conn], but for this: there is no going on after a deadline that has passed. A channel has none,
// so it closes the connection.
func (t *tunnel) SetDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deadline != nil {
		t.deadline.Stop()
		t.deadline = nil
	}
	if !at.IsZero() {
		t.deadline = time.AfterFunc(time.Until(at), func() {
			t.expired.Store(true)
			_ = t.hop.wire.Close()
		})
	}
	return nil
}

// SetReadDeadline is SetDeadline.
func (t *tunnel) SetReadDeadline(at time.Time) error { return t.SetDeadline(at) }

// SetWriteDeadline is SetDeadline.
func (t *tunnel) SetWriteDeadline(at time.Time) error { return t.SetDeadline(at) }

// LocalAddr is our end of the connection to the bastion.
func (t *tunnel) LocalAddr() net.Addr { return t.hop.wire.LocalAddr() }

// RemoteAddr is where the bastion has connected to.
func (t *tunnel) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(t.to) }
