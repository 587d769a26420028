// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// progress is how far a dial has come, and what it has found out. The layer may be read by a
// caller that gives up meanwhile, the rest only when the dial is over.
type progress struct {
	layer atomic.Value
	// entered, if not nil, is called at the beginning of each layer.
	entered func(Layer)
	// withoutLogin ends the dial with errNoLogin once the host key was verified.
	withoutLogin bool
	// insists is TraceOptions.Insists.
	insists bool

	addresses []netip.Addr
	bastion   Peer
	peer      netip.AddrPort
	hostKey   ssh.PublicKey
}

func (p *progress) set(l Layer) {
	p.layer.Store(l)
	if p.entered != nil {
		p.entered(l)
	}
}

func (p *progress) get() Layer {
	if l, ok := p.layer.Load().(Layer); ok {
		return l
	}
	return LayerConnect
}

// timeoutReason says what not being answered means at a layer.
func timeoutReason(l Layer) Reason {
	switch l {
	case LayerConnect:
		return ReasonConnectionTimedOut
	case LayerHandshake:
		return ReasonHandshakeTimedOut
	}
	return ReasonTimedOut
}

// gaveUp is the error for a caller whose context ended while a dial had come to layer l.
func gaveUp(ctx context.Context, l Layer, address string) *Error {
	e := contextError(ctx, l, address)
	if e.Reason == ReasonTimedOut {
		e.Reason = timeoutReason(l)
	}
	return e
}

// dial resolves the target and connects to the first of its allowed addresses that answers, through its bastion if it has one.
func (p *Pool) dial(ctx context.Context, t Target, pr *progress) (net.Conn, error) {
	dctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()

	pr.set(LayerDNS)
	addrs, err := p.Resolve(dctx, t)
	if err != nil {
		if ctx.Err() != nil {
			return nil, gaveUp(ctx, LayerDNS, t.Endpoint())
		}
		return nil, err
	}
	pr.addresses = addrs

	if t.Bastion != nil {
		conn, err := p.dialThrough(ctx, t, pr)
		if err != nil {
			return nil, err
		}
		pr.peer = conn.to
		return conn, nil
	}
	pr.set(LayerConnect)
	conn, err := dialAny(dctx, addrs, t.port())
	if err != nil {
		if ctx.Err() != nil {
			return nil, gaveUp(ctx, LayerConnect, t.Endpoint())
		}
		return nil, &Error{Layer: LayerConnect, Reason: connectReason(err), Address: t.Endpoint(), Err: err}
	}
	pr.peer = conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	return conn, nil
}

// Resolve returns the addresses that would be dialed for the target, in order. It
// connects to none of them. The error is an *Error of LayerDNS, or of LayerConnect
// with ReasonAddressRefused when Options.AllowAddress refuses every address, or with ReasonAddressUndecided.
func (p *Pool) Resolve(ctx context.Context, t Target) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	addrs, err := p.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	allowed, err := allowedAddresses(addrs, p.opts.AllowAddress)
	if err != nil {
		reason := ReasonAddressRefused
		if errors.Is(err, ErrUndecided) {
			reason = ReasonAddressUndecided
		}
		return nil, &Error{Layer: LayerConnect, Reason: reason, Address: t.Endpoint(), Err: err}
	}
	return allowed, nil
}

func (p *Pool) resolve(ctx context.Context, t Target) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(t.host()); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	fail := func(r Reason, err error) error {
		return &Error{Layer: LayerDNS, Reason: r, Address: t.Endpoint(), Err: err}
	}
	if t.host() == "" {
		return nil, fail(ReasonNameNotResolved, errors.New("the target has no address"))
	}
	addrs, err := p.opts.Resolver.LookupNetIP(ctx, "ip", t.host())
	var dnsErr *net.DNSError
	switch {
	case ctx.Err() != nil, errors.As(err, &dnsErr) && dnsErr.IsTimeout:
		return nil, fail(ReasonTimedOut, fmt.Errorf("resolving %s: %w", t.host(), errors.Join(err, ctx.Err())))
	case err != nil:
		return nil, fail(ReasonNameNotResolved, err)
	case len(addrs) == 0:
		return nil, fail(ReasonNameNotResolved, fmt.Errorf("%s has no address", t.host()))
	}
	return preferIPv4(addrs), nil
}

// preferIPv4 orders addresses for dialing. Windows hosts are reached by IPv4 in most
// clusters, and a AAAA record often outlives its route. Name servers give them in another order each
// time: a host is logged in to at the same one, as long as that answers.
func preferIPv4(addrs []netip.Addr) []netip.Addr {
	ordered := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		ordered = append(ordered, a.Unmap())
	}
	slices.SortFunc(ordered, netip.Addr.Compare) // by their length first
	return ordered
}

// allowedAddresses drops refused addresses; its error is the refusal of all of them.
func allowedAddresses(addrs []netip.Addr, allow func(netip.Addr) error) ([]netip.Addr, error) {
	var allowed []netip.Addr
	var refusals []error
	for _, a := range addrs {
		if err := allow(a); err != nil {
			refusals = append(refusals, err)
			continue
		}
		allowed = append(allowed, a)
	}
	if len(allowed) == 0 {
		return nil, errors.Join(refusals...)
	}
	return allowed, nil
}

// dialAny tries the addresses in order. Each gets an equal share of the time that is left, so
// one that swallows packets does not use up the time of the others.
func dialAny(ctx context.Context, addrs []netip.Addr, port int) (net.Conn, error) {
	var failures []error
	for i, a := range addrs {
		conn, err := dialOne(ctx, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

func dialOne(ctx context.Context, addr netip.AddrPort, remaining int) (net.Conn, error) {
	ctx, cancel := shareOfTime(ctx, remaining)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// shareOfTime is the share of one of the attempts that remain in the time that is left for all of them.
func shareOfTime(ctx context.Context, remaining int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(remaining))
}

// connectReason looks for the most telling of the failures of all addresses: one
// that answered says more than one that did not.
func connectReason(err error) Reason {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonConnectionRefused
	case errors.Is(err, syscall.ECONNRESET):
		return ReasonConnectionReset
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return ReasonConnectionTimedOut
	default:
		return ReasonHostUnreachable
	}
}
