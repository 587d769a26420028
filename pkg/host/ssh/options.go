// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"
)

// Resolver is the part of *net.Resolver that the pool needs.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a Pool. The zero value is ready for use: a zero field has the
// default that its comment names.
type Options struct {
	// DialTimeout bounds name resolution and the TCP connection together. Default 10s.
	DialTimeout time.Duration
	// HandshakeTimeout bounds the SSH banner and key exchange together, then once more
	// the authentication, and then the opening of each session. Default 10s.
	HandshakeTimeout time.Duration
	// KeepAliveInterval is how often a connection on which nothing was received is sent a
	// keepalive request. Default 15s.
	KeepAliveInterval time.Duration
	// KeepAliveMisses is how many of them in a row may stay unanswered before the
	// connection is given up and its sessions end with ReasonConnectionLost. Default 3.
	KeepAliveMisses int
	// IdleTimeout is how long a connection without a session is kept. Default 5m.
	IdleTimeout time.Duration
	// MaxSessionsPerConn is how many sessions are opened on one connection. A lower limit of
	// the server is learned when it refuses one. Default 8, below the 10 that sshd
	// allows by default (MaxSessions), so that there is room for sessions the server has not
	// yet seen the end of.
	MaxSessionsPerConn int
	// MaxForwardsPerConn is how many forwarded ports (Pool.Dial) are open on one connection.
	// sshd does not count them as sessions. Default 64.
	MaxForwardsPerConn int
	// MaxConnsPerHost is how many connections are open for one target. Default 4.
	MaxConnsPerHost int
	// MaxConns is how many connections are open in total, those of Pool.HostKey and Pool.Trace included.
	// Of four or more, one namespace gets three quarters at most. A connection that is idle makes room for
	// a new one, of the namespace that has most. Default 1024.
	MaxConns int
	// AllowAddress decides about each resolved address right before it would be dialed, so a
	// name cannot be pointed elsewhere between a check and its use. An error is the
	// refusal and its explanation, which names the address; one that wraps ErrUndecided is none. Default: every address is allowed.
	AllowAddress func(netip.Addr) error
	// Resolver resolves names. Default net.DefaultResolver.
	Resolver Resolver
	// Refusals remembers which bastions refuse the login. Pools of one process share it. Default: one of the pool's own, that has each
	// login tried again after a minute.
	Refusals *Refusals
	// Received is told how many bytes came from a host. It may wait, and nothing more is received over
	// that connection meanwhile: so memory can be bounded however many channels there are, each with a
	// window of 2 MiB. Calls may overlap. Default: nobody is told.
	Received func(bytes int)
}

func (o Options) withDefaults() Options {
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 10*time.Second)
	o.KeepAliveInterval = cmp.Or(o.KeepAliveInterval, 15*time.Second)
	o.KeepAliveMisses = cmp.Or(o.KeepAliveMisses, 3)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 5*time.Minute)
	o.MaxSessionsPerConn = cmp.Or(o.MaxSessionsPerConn, 8)
	o.MaxForwardsPerConn = cmp.Or(o.MaxForwardsPerConn, 64)
	o.MaxConnsPerHost = cmp.Or(o.MaxConnsPerHost, 4)
	o.MaxConns = cmp.Or(o.MaxConns, 1024)
	if o.AllowAddress == nil {
		o.AllowAddress = func(netip.Addr) error { return nil }
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Refusals == nil {
		o.Refusals = NewRefusals(func(int) time.Duration { return time.Minute }, time.Now)
	}
	if o.Received == nil {
		o.Received = func(int) {}
	}
	return o
}
