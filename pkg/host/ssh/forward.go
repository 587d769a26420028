// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"
)

// Dial connects to a port of the host's own loopback interface, 127.0.0.1, through the
// SSH connection. Closing the net.Conn, or the end of ctx, ends the forward; unlike with
// net.Dialer ctx stays in force after Dial has returned. Deadlines work. After a Write that
// ended at its deadline it is not known how much of the last 64 KiB was sent.
func (p *Pool) Dial(ctx context.Context, t Target, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	s, err := p.openStream(ctx, t, forwardChannel(port))
	if err != nil {
		return nil, err
	}
	s.closeWith(ctx)
	return &forward{s: s, remote: loopback(port)}, nil
}

func loopback(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// forwardChannel is a direct-tcpip channel (RFC 4254, section 7.2).
func forwardChannel(port int) channelSpec {
	return channelSpec{
		kind: kindForward,
		name: "direct-tcpip",
		payload: ssh.Marshal(struct {
			Host           string
			Port           uint32
			OriginatorHost string
			OriginatorPort uint32
		}{loopback(port).Addr().String(), uint32(port), "127.0.0.1", 0}),
	}
}

// forward is a forwarded connection.
type forward struct {
	s      *stream
	remote netip.AddrPort
}

var _ net.Conn = (*forward)(nil)

// Read implements net.Conn.
func (f *forward) Read(b []byte) (int, error) {
	n, err := f.s.stdout.Read(b)
	return n, netError(err)
}

// Write implements net.Conn.
func (f *forward) Write(b []byte) (int, error) {
	n, err := f.s.stdin.Write(b)
	return n, netError(err)
}

// CloseWrite ends what is sent; Read goes on, as with *net.TCPConn.
func (f *forward) CloseWrite() error {
	return netError(f.s.stdin.Close())
}

// Close implements net.Conn.
func (f *forward) Close() error {
	f.s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: f.s.conn.address, Err: net.ErrClosed})
	return nil
}

// LocalAddr is the address of nothing: the host chooses where the connection comes from.
func (f *forward) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(loopback(0)) }

// RemoteAddr is the address as the host sees it.
func (f *forward) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.remote) }

// SetDeadline implements net.Conn.
func (f *forward) SetDeadline(t time.Time) error {
	f.s.stdout.deadline.set(t)
	f.s.stdin.deadline.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (f *forward) SetReadDeadline(t time.Time) error {
	f.s.stdout.deadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (f *forward) SetWriteDeadline(t time.Time) error {
	f.s.stdin.deadline.set(t)
	return nil
}

// netError makes a close by our side look as with other connections.
func netError(err error) error {
	if e, ok := AsError(err); ok && e.Reason == ReasonSessionClosed && errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	return err
}
