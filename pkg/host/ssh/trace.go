// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"
)

// TraceOptions say how far a trace goes.
type TraceOptions struct {
	// WithoutLogin ends the trace when the host key is verified, for a target whose
	// credential is not at hand.
	WithoutLogin bool
	// WithoutBastion ends the trace when the name is resolved, for a target whose bastion is not known.
	WithoutBastion bool
	// Insists has the bastion logged in to also while it is remembered that it refuses that, see [Refusals], unless it did within the
	// last ten seconds.
	Insists bool
}

// Trace is the way to a host, tried once more from the beginning, layer by layer. Nothing
// that the pool already has open is used. It must be closed, once.
type Trace struct {
	// Steps are the layers in the order in which they were tried. Only the last one can have failed.
	Steps []TraceStep
	// Addresses are those that the name stands for and that may be dialed.
	Addresses []netip.Addr
	// Bastion is the one that the host was reached through. The zero Peer: none is, or it did not come to that.
	Bastion Peer
	// Peer is the address that answered.
	Peer netip.AddrPort
	// HostKey is the key that the host presented. Nil: it did not come to that.
	HostKey ssh.PublicKey
	// ServerVersion is how the SSH server identifies itself, once logged in.
	ServerVersion string
	// Accepted is the key of ours that the host took. Nil: it took a password, or was not logged in to.
	Accepted PublicKey
	// Certified: it took a certificate of that key.
	Certified bool
	// Pool has the connection of the trace, to continue with it, and no other. Nil: it was
	// not logged in. Close closes it.
	Pool *Pool

	stop func()
	// layer is what is being tried, since began.
	layer Layer
	began time.Time
}

// TraceStep is one layer of a [Trace].
type TraceStep struct {
	// Layer is what was tried, from LayerDNS to LayerSession; LayerBastion only where there is one. The policy on
	// addresses belongs to LayerDNS here.
	Layer Layer
	// Duration is how long it took.
	Duration time.Duration
	// Err is why it failed, as an *Error. Nil: it did not.
	Err error
}

// Trace makes a new connection to t, logs in and opens a session. What fails is in the
// last of the steps.
func (p *Pool) Trace(ctx context.Context, t Target, o TraceOptions) *Trace {
	tr := &Trace{layer: LayerDNS, began: time.Now()}
	ctx, done, err := p.begin(ctx, t)
	if err != nil {
		tr.step(err)
		return tr
	}
	tr.stop, tr.began = done, time.Now() // there was room
	if o.WithoutBastion {
		tr.Addresses, err = p.Resolve(ctx, t)
		tr.step(err)
		return tr
	}
	pr := &progress{entered: tr.enter, withoutLogin: o.WithoutLogin, insists: o.Insists}
	e, err := p.connect(ctx, t, pr)
	tr.Addresses, tr.Bastion, tr.Peer, tr.HostKey = pr.addresses, pr.bastion, pr.peer, pr.hostKey
	if err != nil {
		if errors.Is(err, errNoLogin) {
			err = nil
		}
		if e, ok := AsError(err); ok && e.Layer == LayerBastion {
			tr.backTo(LayerBastion) // only when it was to connect to the host it said that it does not
		}
		tr.step(err)
		return tr
	}
	tr.ServerVersion = string(e.ssh.ServerVersion())
	tr.Accepted, tr.Certified = e.peer.Accepted, e.peer.Certified
	tr.keep(p, t, e)
	tr.step(tr.Pool.Ping(ctx, t))
	return tr
}

// Close closes the connection of the trace.
func (tr *Trace) Close() {
	if tr.Pool != nil {
		_ = tr.Pool.Close()
	}
	if tr.stop != nil {
		tr.stop()
	}
}

// enter begins a layer, after the success of the one before it.
func (tr *Trace) enter(l Layer) {
	if l != tr.layer {
		tr.step(nil)
	}
	tr.layer = l
}

// backTo makes a layer that was passed the present one again.
func (tr *Trace) backTo(l Layer) {
	for i := len(tr.Steps) - 1; i >= 0 && tr.layer != l; i-- {
		tr.layer, tr.began = tr.Steps[i].Layer, tr.began.Add(-tr.Steps[i].Duration)
		tr.Steps = tr.Steps[:i]
	}
}

// step notes the end of the layer.
func (tr *Trace) step(err error) {
	now := time.Now()
	tr.Steps = append(tr.Steps, TraceStep{Layer: tr.layer, Duration: now.Sub(tr.began), Err: err})
	tr.began = now
}

// keep puts a connection into a pool of its own, in which others can neither use nor close it.
func (tr *Trace) keep(p *Pool, t Target, e *established) {
	o := p.opts
	o.MaxConns, o.MaxConnsPerHost = 1, 1
	own := New(o)
	own.mu.Lock()
	own.takeRoomLocked(t.Namespace)
	own.adoptLocked(own.hostLocked(t), e, true)
	own.mu.Unlock()
	tr.Pool = own
	unlink, done := context.AfterFunc(p.ctx, func() { _ = own.Close() }), tr.stop
	tr.stop = func() {
		unlink()
		done()
	}
}
