// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"
)

// TraceOptions say how far a trace goes.
type TraceOptions struct {
	// WithoutLogin ends the trace when the host key is verified, for a target whose
	// credential is not at hand.
	WithoutLogin bool
}

// Trace is the way to a host, made once more from the beginning and looked at layer by
// layer. Nothing that the pool already has open is used. It must be closed.
type Trace struct {
	// Steps are the layers in the order in which they were tried. Only the last one can have failed.
	Steps []TraceStep
	// Addresses are those that the name stands for and that may be dialed.
	Addresses []netip.Addr
	// Peer is the address that answered.
	Peer netip.AddrPort
	// HostKey is the key that the host presented. Nil: it did not come to that.
	HostKey ssh.PublicKey
	// ServerVersion is how the SSH server identifies itself, once logged in.
	ServerVersion string
	// Pool has the connection of the trace, to go on with it, and no other. Nil: it was
	// not logged in. Close closes it.
	Pool *Pool

	closers []func()
	address string
	began   time.Time
}

// TraceStep is one layer of a [Trace].
type TraceStep struct {
	// Layer is what was tried, from LayerDNS to LayerSession. The policy on addresses
	// belongs to LayerDNS here.
	Layer Layer
	// Duration is how long it took.
	Duration time.Duration
	// Err is why it failed, as an *Error. Nil: it did not.
	Err error
}

// Trace makes a new connection to t, logs in and opens a session. What fails is in the
// last of the steps.
func (p *Pool) Trace(ctx context.Context, t Target, o TraceOptions) *Trace {
	tr := &Trace{address: t.hostPort(), began: time.Now()}
	ctx, done, err := p.begin(ctx, t)
	if err != nil {
		tr.step(LayerDNS, err)
		return tr
	}
	tr.closers = append(tr.closers, done)
	raw := tr.dial(ctx, p, t)
	if raw == nil {
		return tr
	}
	e := tr.handshake(ctx, p, t, raw, o)
	if e == nil {
		return tr
	}
	tr.keep(p, t, e)
	tr.step(LayerSession, tr.Pool.Ping(ctx, t))
	return tr
}

// Close closes the connection of the trace.
func (tr *Trace) Close() {
	for _, f := range tr.closers {
		f()
	}
	tr.closers = nil
}

// step notes the end of a layer. The next one begins now.
func (tr *Trace) step(l Layer, err error) {
	now := time.Now()
	tr.Steps = append(tr.Steps, TraceStep{Layer: l, Duration: now.Sub(tr.began), Err: err})
	tr.began = now
}

// dial connects to the host, or returns nil.
func (tr *Trace) dial(ctx context.Context, p *Pool, t Target) net.Conn {
	addrs, err := p.Resolve(ctx, t)
	if err != nil && ctx.Err() != nil {
		err = gaveUp(ctx, LayerDNS, tr.address)
	}
	tr.step(LayerDNS, err)
	if err != nil {
		return nil
	}
	tr.Addresses = addrs
	dctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	raw, err := dialAny(dctx, addrs, t.port())
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = gaveUp(ctx, LayerConnect, tr.address)
	default:
		err = &Error{Layer: LayerConnect, Reason: connectReason(err), Address: tr.address, Err: err}
	}
	tr.step(LayerConnect, err)
	if err != nil {
		return nil
	}
	tr.Peer, _ = netip.ParseAddrPort(raw.RemoteAddr().String()) // always one, as we dialed one
	return raw
}

// errNoLogin ends a handshake whose host key was all that was wanted.
var errNoLogin = errors.New("the host key was verified")

// handshake gets from TCP to a login, or returns nil.
func (tr *Trace) handshake(ctx context.Context, p *Pool, t Target, raw net.Conn, o TraceOptions) *established {
	h := handshake{pool: p, target: t, progress: &progress{}, algorithms: pinnedAlgorithms(t.HostKeys)}
	if len(h.algorithms) == 0 {
		h.algorithms = hostKeyPreference
	}
	verified := false
	h.verify = func(k ssh.PublicKey) error {
		tr.HostKey = k
		tr.step(LayerHandshake, nil)
		if err := checkHostKey(k, t.HostKeys); err != nil {
			return err
		}
		tr.step(LayerHostKey, nil)
		verified = true
		if o.WithoutLogin {
			return errNoLogin
		}
		return nil
	}
	e, err := h.run(ctx, raw)
	switch {
	case err == nil:
		tr.ServerVersion = string(e.ssh.ServerVersion())
		tr.step(LayerAuth, nil)
		return e
	case verified && o.WithoutLogin:
	case len(t.HostKeys) > 0 && noCommonHostKey(err):
		// They agree on everything but the host key.
		tr.step(LayerHandshake, nil)
		err = p.explainMissingHostKey(ctx, t, &progress{}, err)
		if changed := (*HostKeyError)(nil); errors.As(err, &changed) {
			tr.HostKey = changed.Presented
		}
		tr.step(LayerHostKey, err)
	case verified:
		tr.step(LayerAuth, err)
	case tr.HostKey != nil:
		tr.step(LayerHostKey, err)
	default:
		tr.step(LayerHandshake, err)
	}
	return nil
}

// keep puts a connection into a pool of its own, in which others can neither use nor close it.
func (tr *Trace) keep(p *Pool, t Target, e *established) {
	o := p.opts
	o.MaxConns, o.MaxConnsPerHost = 1, 1
	own := New(o)
	own.mu.Lock()
	own.open++
	own.adoptLocked(own.hostLocked(t), e, true)
	own.mu.Unlock()
	tr.Pool = own
	stop := context.AfterFunc(p.ctx, func() { _ = own.Close() })
	// First, so that p is not done before it.
	tr.closers = append([]func(){func() { stop(); _ = own.Close() }}, tr.closers...)
}
