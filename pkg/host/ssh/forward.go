// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"net"

	"golang.org/x/crypto/ssh"
)

// loopback is the host's own loopback interface, the only one that ports are forwarded to.
const loopback = "127.0.0.1"

// Forward is a connection to a port of a host, through the SSH connection. Its methods may be
// called concurrently.
type Forward struct{ s *stream }

// Dial connects to a port of the host's own loopback interface, 127.0.0.1, through the
// SSH connection. Closing the Forward, or the end of ctx, ends it; unlike with
// net.Dialer ctx stays in force after Dial has returned.
func (p *Pool) Dial(ctx context.Context, t Target, port uint16) (*Forward, error) {
	s, err := p.openStream(ctx, t, forwardChannel(port))
	if err != nil {
		return nil, err
	}
	return &Forward{s}, nil
}

// forwardChannel is a channel to a port of the host itself.
func forwardChannel(port uint16) channelSpec { return directTCPIP(loopback, port) }

// directTCPIP is a channel to an address as the server sees it (RFC 4254, section 7.2).
func directTCPIP(address string, port uint16) channelSpec {
	return channelSpec{
		kind: kindForward,
		name: "direct-tcpip",
		payload: ssh.Marshal(struct {
			Host           string
			Port           uint32
			OriginatorHost string
			OriginatorPort uint32
		}{address, uint32(port), loopback, 0}),
	}
}

// Read implements io.Reader. After Close the error is a net.ErrClosed.
func (f *Forward) Read(b []byte) (int, error) { return f.s.stdout.Read(b) }

// Write implements io.Writer. After Close the error is a net.ErrClosed.
func (f *Forward) Write(b []byte) (int, error) { return f.s.stdin.Write(b) }

// CloseWrite ends what is sent; Read continues, as with *net.TCPConn.
func (f *Forward) CloseWrite() error { return f.s.stdin.Close() }

// Close ends the connection. It may be called more than once. The error is always nil.
func (f *Forward) Close() error {
	f.s.close(&Error{Layer: LayerSession, Reason: ReasonSessionClosed, Address: f.s.conn.address, Err: net.ErrClosed})
	return nil
}
