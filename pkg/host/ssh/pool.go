// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// Pool is a set of SSH connections, shared by everybody who talks to hosts. All its
// methods may be called concurrently.
type Pool struct {
	opts Options

	// doors bound the logins to bastions.
	doors doors

	// ctx ends when the pool is closed, with errPoolClosed as its cause.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wg counts the goroutines that Close waits for.
	wg sync.WaitGroup

	// mu guards everything below, all fields of host, and those fields of conn that say so.
	// Nothing that can block is done while it is held: no I/O and no sending to a channel
	// that may be full.
	mu         sync.Mutex
	closed     bool
	hosts      map[key]*host
	queued     []*claim         // wait for room, the oldest first
	total      usage            // of all
	namespaces map[string]usage // of those that have any
	stats      Stats            // its counters, and Dialing
}

// errPoolClosed is the cause of everything that Close ends.
var errPoolClosed = errors.New("the pool was closed")

// New returns an empty pool. Close ends it.
func New(o Options) *Pool {
	p := &Pool{opts: o.withDefaults(), hosts: make(map[key]*host), namespaces: make(map[string]usage)}
	p.stats.DialFailures = make(map[Reason]uint64)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// Close closes all connections, ends everything that runs on them and every call that
// waits with ReasonPoolClosed, and returns when all goroutines of the pool have ended. It may be called
// more than once. The error is always nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, h := range p.hosts {
		for _, c := range h.allConns() {
			c.closeLocked(&Error{Layer: LayerSession, Reason: ReasonPoolClosed, Address: c.address})
		}
		h.failLocked(&Error{Layer: LayerConnect, Reason: ReasonPoolClosed, Address: h.target.Endpoint()})
	}
	p.mu.Unlock()
	p.cancel(errPoolClosed)
	p.wg.Wait()
	return nil
}

// Forget closes the connections of an owner, with whatever runs on them, so that the next use
// makes a new connection. That is wherever they lead to and whatever they were authenticated
// with: the owner may have been changed since.
func (p *Pool) Forget(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, h := range p.hosts {
		if k.owner != owner {
			continue
		}
		for _, c := range h.allConns() {
			c.closeLocked(c.lost(errForgotten))
		}
		h.detachDialLocked()
		p.scheduleLocked(h)
	}
}

var errForgotten = errors.New("the target was forgotten")

// begin registers a call that makes a connection outside of the pool, when there is room for one: it
// counts like those of the pool. The returned context also ends with the pool, and done must be called when
// the connection is gone.
func (p *Pool) begin(ctx context.Context, t Target) (_ context.Context, done func(), _ error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, nil, &Error{Layer: LayerConnect, Reason: ReasonPoolClosed, Address: t.Endpoint()}
	}
	p.wg.Add(1)
	granted := make(chan struct{})
	c := &claim{namespace: t.Namespace}
	c.grant = func() {
		p.takeRoomLocked(c.namespace)
		close(granted)
	}
	if p.hasRoomLocked(c.namespace) {
		c.grant()
	} else {
		p.waitForRoomLocked(c)
	}
	p.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(errPoolClosed) })
	end := func() {
		stop()
		cancel(nil)
		p.wg.Done()
	}
	select {
	case <-granted:
	case <-ctx.Done():
		p.mu.Lock()
		waits := slices.Contains(p.queued, c)
		p.unqueueLocked(c)
		p.mu.Unlock()
		if waits {
			err := noRoom(ctx, t)
			end()
			return nil, nil, err
		}
	}
	return ctx, func() {
		p.mu.Lock()
		p.giveRoomBackLocked(c.namespace)
		p.admitLocked()
		p.mu.Unlock()
		end()
	}, nil
}

// Peer is who a connection was made to.
type Peer struct {
	// Address is where it was dialed, which of the addresses of a name that is.
	Address netip.Addr
	// HostKey is the key that the host has proven to have.
	HostKey PublicKey
	// Accepted is the key of ours that it took. Nil: it took a password.
	Accepted PublicKey
	// Certified: it took a certificate of that key, and may not take the key by itself.
	Certified bool
}

// Login makes sure that an authenticated connection to t exists and that the host opens a
// session on it, and returns where that connection leads to. It runs no command.
func (p *Pool) Login(ctx context.Context, t Target) (Peer, error) {
	s, err := p.openStream(ctx, t, sessionChannel)
	if err != nil {
		return Peer{}, err
	}
	s.closeByCaller()
	return s.conn.peer, nil
}

// Ping is Login for those who know where the connection leads to.
func (p *Pool) Ping(ctx context.Context, t Target) error {
	_, err := p.Login(ctx, t)
	return err
}
