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
)

// progress tells a caller that gives up how far the dial it waits for has come.
type progress struct{ layer atomic.Value }

func (p *progress) set(l Layer) { p.layer.Store(l) }

func (p *progress) get() Layer {
	if l, ok := p.layer.Load().(Layer); ok {
		return l
	}
	return LayerConnect
}

// timeoutReasons names what not being answered means at a layer.
var timeoutReasons = map[Layer]Reason{
	LayerConnect:   ReasonConnectionTimedOut,
	LayerHandshake: ReasonHandshakeTimedOut,
}

func timeoutReason(l Layer) Reason {
	if r, ok := timeoutReasons[l]; ok {
		return r
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

// dialTCP resolves the target and connects to the first of its allowed addresses that answers.
func (p *Pool) dialTCP(ctx context.Context, t Target, pr *progress) (net.Conn, error) {
	dctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()

	pr.set(LayerDNS)
	addrs, err := p.resolve(dctx, t)
	if err != nil {
		if ctx.Err() != nil {
			return nil, gaveUp(ctx, LayerDNS, t.hostPort())
		}
		return nil, err
	}

	pr.set(LayerConnect)
	allowed, err := allowedAddresses(addrs, p.opts.AllowAddress)
	if err != nil {
		return nil, &Error{Layer: LayerConnect, Reason: ReasonAddressRefused, Address: t.hostPort(), Err: err}
	}
	conn, err := dialAny(dctx, allowed, t.port())
	if err != nil {
		if ctx.Err() != nil {
			return nil, gaveUp(ctx, LayerConnect, t.hostPort())
		}
		return nil, &Error{Layer: LayerConnect, Reason: connectReason(err), Address: t.hostPort(), Err: err}
	}
	return conn, nil
}

func (p *Pool) resolve(ctx context.Context, t Target) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(t.host()); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	fail := func(r Reason, err error) error {
		return &Error{Layer: LayerDNS, Reason: r, Address: t.hostPort(), Err: err}
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
// clusters, and a AAAA record often outlives its route.
func preferIPv4(addrs []netip.Addr) []netip.Addr {
	ordered := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		ordered = append(ordered, a.Unmap())
	}
	slices.SortStableFunc(ordered, func(a, b netip.Addr) int {
		switch {
		case a.Is4() == b.Is4():
			return 0
		case a.Is4():
			return -1
		default:
			return 1
		}
	})
	return ordered
}

// allowedAddresses drops refused addresses; its error is the refusal of all of them.
func allowedAddresses(addrs []netip.Addr, allow func(netip.Addr) error) ([]netip.Addr, error) {
	var allowed []netip.Addr
	var refusals []error
	for _, a := range addrs {
		if err := allow(a); err != nil {
			refusals = append(refusals, fmt.Errorf("%s: %w", a, err))
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
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(remaining))
		defer cancel()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
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
