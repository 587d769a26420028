// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Bastion is an SSH server through which a host is reached. Each connection to a host has a connection to the bastion of
// its own: so it ends with it, is held back with it, and nobody's use of a bastion is another one's.
type Bastion struct {
	// Address is a DNS name or an IP address.
	Address string
	// Port is the TCP port; zero means DefaultPort.
	Port int
	// User is the login name.
	User string
	// Credential proves it. Nothing of it is ever offered to the host.
	Credential Credential
	// HostKeys are the pinned public keys, any of which the bastion may present. Empty means that it is not logged in to.
	HostKeys []ssh.PublicKey
}

// Endpoint is the address and the port of the bastion.
func (b *Bastion) Endpoint() string { return b.target(Target{}).Endpoint() }

// target is the bastion as what is connected to, for the owner of a host.
func (b *Bastion) target(of Target) Target {
	return Target{
		Owner: of.Owner, Namespace: of.Namespace,
		Address: b.Address, Port: b.Port, User: b.User, Credential: b.Credential, HostKeys: b.HostKeys,
	}
}

// digest differs between bastions through which no connection may be shared. That of none is zero.
func (b *Bastion) digest() [sha256.Size]byte {
	if b == nil {
		return [sha256.Size]byte{}
	}
	k := b.target(Target{}).key()
	return digest([][]byte{[]byte(k.host), []byte(strconv.Itoa(k.port)), []byte(k.user), k.credential[:], k.hostKeys[:]})
}

// endpointAt is what is contacted at a layer, as it appears in errors.
func (t Target) endpointAt(l Layer) string {
	if l == LayerBastion && t.Bastion != nil {
		return t.Bastion.Endpoint()
	}
	return t.Endpoint()
}

// gaveUp is gaveUp for a dial of the target that had come to layer l.
func (t Target) gaveUp(ctx context.Context, l Layer) *Error {
	e := gaveUp(ctx, l, t.endpointAt(l))
	if l == LayerConnect && t.Bastion != nil {
		e.From = t.endpointAt(LayerBastion)
	}
	return e
}

// hop is an authenticated connection to a bastion.
type hop struct {
	endpoint string
	wire     *wire
	ssh      ssh.Conn
	// ended is closed when the SSH library has seen the end.
	ended chan struct{}
}

// dialThrough connects to the first of the addresses of the target that answers its bastion. What is sent to the bastion is
// an address: a name could mean another host there.
func (p *Pool) dialThrough(ctx context.Context, t Target, pr *progress) (*tunnel, error) {
	pr.set(LayerBastion)
	b, err := p.loginToBastion(ctx, t, pr)
	if err != nil {
		return nil, err
	}
	pr.set(LayerConnect)
	dctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	conn, failures := p.connectFrom(dctx, b, pr.addresses, t.port())
	if conn != nil {
		return conn, nil
	}
	e := b.explain(failures, t)
	if ctx.Err() != nil {
		e = t.gaveUp(ctx, LayerConnect)
	}
	_ = b.wire.Close() // with whatever the bastion still tries
	return nil, e
}

// loginToBastion makes a connection to the bastion of a target, unless it is known to refuse that.
func (p *Pool) loginToBastion(ctx context.Context, t Target, pr *progress) (*hop, error) {
	refusals := p.opts.Refusals
	for {
		a, err := refusals.begin(ctx, t, pr.insists)
		if err != nil {
			return nil, err
		}
		leave, err := p.doors.enter(ctx, t.Namespace+" "+t.Bastion.Endpoint())
		if err != nil {
			return nil, refusals.end(ctx, a, t.gaveUp(ctx, LayerBastion))
		}
		if !refusals.stands(a) { // it was refused to somebody who was in before
			leave()
			continue
		}
		b, err := p.enterBastion(ctx, t, pr)
		leave()
		if err := refusals.end(ctx, a, err); err != nil {
			return nil, err
		}
		return b, nil
	}
}

// enterBastion logs in to the bastion of a target.
func (p *Pool) enterBastion(ctx context.Context, t Target, pr *progress) (*hop, error) {
	bastion := t.Bastion.target(t)
	e, err := p.connect(ctx, bastion, &progress{})
	if err != nil {
		return nil, onBastion(err, bastion.Endpoint())
	}
	pr.bastion = e.peer
	b := &hop{endpoint: bastion.Endpoint(), wire: e.wire, ssh: e.ssh, ended: make(chan struct{})}
	p.wg.Go(func() { ssh.DiscardRequests(e.requests) })
	p.wg.Go(func() { rejectChannels(e.channels) })
	p.wg.Go(func() {
		_ = e.ssh.Wait() // why it ended is what the network said
		close(b.ended)
	})
	return b, nil
}

// onBastion makes an error of the way to a bastion one of the way to a host.
func onBastion(err error, endpoint string) *Error {
	out := &Error{Layer: LayerBastion, Reason: ReasonHandshakeFailed, Address: endpoint, Err: err}
	if inner, ok := AsError(err); ok {
		out.Reason, out.Remark = inner.Reason, inner.Remark
	}
	return out
}

// connectFrom has the bastion connect to the first of the addresses that answers it. Without a connection it returns why not.
func (p *Pool) connectFrom(ctx context.Context, b *hop, addrs []netip.Addr, port int) (*tunnel, []error) {
	var failures []error
	for i, a := range addrs {
		conn, err := p.connectOnceFrom(ctx, b, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", a, err))
		if ctx.Err() != nil || b.lost() != nil {
			break
		}
	}
	return nil, failures
}

func (p *Pool) connectOnceFrom(ctx context.Context, b *hop, to netip.AddrPort, remaining int) (*tunnel, error) {
	ctx, cancel := shareOfTime(ctx, remaining)
	defer cancel()
	spec := directTCPIP(to.Addr().String(), to.Port())
	channel, requests, err := requestChannel(ctx.Done(), b.ssh, b.ended, spec)
	if errors.Is(err, errGivenUp) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	p.wg.Go(func() { ssh.DiscardRequests(requests) })
	return &tunnel{Channel: channel, hop: b, to: to}, nil
}

// lost is why the connection to the bastion is over, nil while it is not.
func (b *hop) lost() error {
	err := b.wire.err()
	if err == nil {
		select {
		case <-b.ended:
			err = errClosedByBastion
		default:
			return nil
		}
	}
	return &bastionLostError{b.endpoint, err}
}

var errClosedByBastion = errors.New("the bastion closed it")

// bastionLostError is the end of a connection to a bastion, and so of what went through it.
type bastionLostError struct {
	endpoint string
	err      error
}

func (e *bastionLostError) Error() string {
	return fmt.Sprintf("the connection to bastion %s was lost: %v", e.endpoint, e.err)
}

func (e *bastionLostError) Unwrap() error { return e.err }

// explain says at which layer the attempts of a bastion to connect to a host failed, and why: one that the bastion refused
// to make says nothing about the host.
func (b *hop) explain(failures []error, t Target) *Error {
	if lost := b.lost(); lost != nil {
		return &Error{Layer: LayerBastion, Reason: ReasonConnectionLost, Address: b.endpoint, Err: lost}
	}
	reasons := make([]Reason, len(failures))
	for i, failure := range failures {
		reasons[i] = openReason(failure)
	}
	e := &Error{Layer: LayerConnect, Reason: ReasonHostUnreachable, Address: t.Endpoint(), From: b.endpoint, Err: errors.Join(failures...)}
	if i := slices.IndexFunc(openReasons, func(r Reason) bool { return slices.Contains(reasons, r) }); i >= 0 {
		e.Reason = openReasons[i]
	}
	if e.Reason == ReasonForwardRefused || e.Reason == ReasonSessionRefused {
		e.Layer, e.Address, e.From = LayerBastion, b.endpoint, ""
	}
	return e
}

// openReasons are what openReason returns, that which says most first: an address that answered says more than one that did
// not, and that more than one that was not tried.
var openReasons = []Reason{ReasonConnectionRefused, ReasonConnectionTimedOut, ReasonHostUnreachable, ReasonForwardRefused, ReasonSessionRefused}

// openReason translates why a bastion did not connect to a host, see RFC 4254, section 5.1. That the host could not be
// connected to is one reason there, whatever happened: OpenSSH adds the error of its system as text.
func openReason(err error) Reason {
	var refusal *ssh.OpenChannelError
	if !errors.As(err, &refusal) {
		if errors.Is(err, context.DeadlineExceeded) {
			return ReasonConnectionTimedOut
		}
		return ReasonHostUnreachable
	}
	switch refusal.Reason {
	case ssh.Prohibited, ssh.UnknownChannelType:
		return ReasonForwardRefused
	case ssh.ResourceShortage:
		return ReasonSessionRefused
	}
	switch text := strings.ToLower(refusal.Message); {
	case strings.Contains(text, "refused"):
		return ReasonConnectionRefused
	case strings.Contains(text, "timed out"):
		return ReasonConnectionTimedOut
	}
	return ReasonHostUnreachable
}
