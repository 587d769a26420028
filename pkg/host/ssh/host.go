// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"slices"
	"time"
)

// kind of a channel: each has a limit of its own on a connection.
type kind int

const (
	kindSession kind = iota
	kindForward
	numKinds
)

// host is the connections that share a key, and who waits for one. It exists while
// there is either. All fields are guarded by Pool.mu.
type host struct {
	pool *Pool
	key  key
	// target is what is dialed: that of the latest caller.
	target Target
	conns  []*conn
	// retired are connections that were given up and still have forwards or sessions, or are
	// being torn down.
	retired []*conn
	waiters []*waiter // first come, first served
	dial    *dial     // the one that the waiters share
	// sessionLimit is what a server of this target taught us; Options.MaxSessionsPerConn
	// until then.
	sessionLimit int
	// claim waits for room for another connection.
	claim *claim
}

// waiter is a caller that needs a channel.
type waiter struct {
	kind kind
	// ready receives the one grant. It has room for it, so granting never blocks.
	ready chan grant
}

// grant is a reserved channel on conn, or the reason why there will be none.
type grant struct {
	conn *conn
	err  error
}

// dial is a connection being made. Its context belongs to the pool and not to any caller: it
// ends when nobody waits any more.
type dial struct {
	ctx      context.Context
	cancel   context.CancelFunc
	progress progress
	// failure is why the last attempt failed while the host has other connections; the dial
	// then pauses before the next attempt, and waiters may still be served by the others.
	failure error
}

// decisiveReasons are those that also a bastion may be the cause of.
var decisiveReasons = []Reason{ReasonCredentialsRefused, ReasonHostKeyChanged, ReasonForwardRefused}

// redialPause is how long a further connection to a host is not tried again after it failed while
// others work. A busy host or a limit on its side is the likely cause.
const redialPause = 5 * time.Second

// acquire reserves a channel of kind k on a connection to t, made if need be. It must be
// followed by conn.openStream.
func (p *Pool) acquire(ctx context.Context, t Target, k kind) (*conn, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx, LayerConnect, t.Endpoint())
	}
	w := &waiter{kind: k, ready: make(chan grant, 1)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, &Error{Layer: LayerConnect, Reason: ReasonPoolClosed, Address: t.Endpoint()}
	}
	h := p.hostLocked(t)
	h.waiters = append(h.waiters, w)
	p.scheduleLocked(h)
	p.mu.Unlock()

	select {
	case g := <-w.ready:
		return g.conn, g.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(h.waiters, w)
	if i < 0 {
		// The grant was on its way.
		p.mu.Unlock()
		g := <-w.ready
		if g.conn != nil {
			g.conn.unopened(k)
		}
		return nil, gaveUp(ctx, LayerSession, t.Endpoint())
	}
	err := h.whyWaitingLocked(ctx, t)
	h.waiters = slices.Delete(h.waiters, i, i+1)
	if len(h.waiters) == 0 {
		h.detachDialLocked()
	}
	p.dropIfUnusedLocked(h)
	p.mu.Unlock()
	return nil, err
}

func (p *Pool) hostLocked(t Target) *host {
	k := t.key()
	h, ok := p.hosts[k]
	if !ok {
		h = &host{pool: p, key: k, sessionLimit: p.opts.MaxSessionsPerConn}
		h.claim = &claim{namespace: k.namespace, grant: func() { p.scheduleLocked(h) }}
		p.hosts[k] = h
	}
	h.target = t
	return h
}

// scheduleLocked gives free channels to waiters and starts a dial if some remain. It is called
// whenever something changed that could help a waiter, so a waiter that stays is
// always waiting for a dial, for MaxConns, or for a channel in use.
func (p *Pool) scheduleLocked(h *host) {
	if p.closed {
		return
	}
	h.waiters = slices.DeleteFunc(h.waiters, func(w *waiter) bool {
		c := h.pickLocked(w.kind)
		if c == nil {
			return false
		}
		c.reserveLocked(w.kind)
		w.ready <- grant{conn: c}
		return true
	})
	defer p.dropIfUnusedLocked(h)
	if len(h.waiters) == 0 {
		return
	}
	if h.dial != nil {
		if h.dial.failure != nil && len(h.conns) == 0 {
			h.dial.cancel() // nothing else will serve the waiters: end the pause
		}
		return
	}
	if len(h.conns) >= p.opts.MaxConnsPerHost {
		h.reclaimLocked() // then this is called again
		return
	}
	if !p.hasRoomLocked(h.key.namespace) {
		p.waitForRoomLocked(h.claim)
		return
	}
	p.startDialLocked(h)
}

// pickLocked returns the oldest connection with room, so that younger ones become idle and close.
func (h *host) pickLocked(k kind) *conn {
	for _, c := range h.conns {
		if c.roomLocked(k) {
			return c
		}
	}
	return nil
}

// reclaimLocked closes a connection all of whose sessions were closed by us while the host
// did not end their commands: it will not become usable by waiting.
func (h *host) reclaimLocked() {
	for _, c := range h.conns {
		if c.idle() && !c.roomLocked(kindSession) && len(c.refused) == 0 {
			c.closeLocked(c.lost(errReclaimed))
			return
		}
	}
}

var (
	errReclaimed = errors.New("the connection held only commands that did not end after they were canceled")
	errIdle      = errors.New("the connection was idle")
	errEvicted   = errors.New("the connection was idle and another host needed its place")
)

func (p *Pool) startDialLocked(h *host) {
	ctx, cancel := context.WithCancel(p.ctx)
	d := &dial{ctx: ctx, cancel: cancel}
	h.dial = d
	t := h.target
	p.takeRoomLocked(h.key.namespace)
	p.stats.Dialing++
	p.stats.Dials++
	p.wg.Go(func() {
		defer cancel()
		p.runDial(h, d, t)
	})
}

// runDial makes one connection, or fails those who wait for it.
func (p *Pool) runDial(h *host, d *dial, t Target) {
	e, err := p.connect(d.ctx, t, &d.progress)
	failure, _ := AsError(err)

	p.mu.Lock()
	p.stats.Dialing--
	wanted := h.dial == d
	if err == nil {
		// Also if it is not wanted any more: the connection's own goroutine is the one that can
		// take it down in order.
		p.adoptLocked(h, e, wanted)
		if wanted {
			h.dial = nil
		}
		p.scheduleLocked(h)
		p.mu.Unlock()
		return
	}
	p.giveRoomBackLocked(h.key.namespace)
	if wanted {
		p.stats.DialFailures[failure.Reason]++
	}
	// A decisive failure would repeat: it is reported at once even if the host has working connections.
	decisive := failure.Layer == LayerHostKey || slices.Contains(decisiveReasons, failure.Reason)
	pause := wanted && len(h.conns) > 0 && len(h.waiters) > 0 && !decisive
	switch {
	case pause:
		d.failure = err
	case wanted:
		h.dial = nil
		h.failLocked(err)
	}
	p.afterCloseLocked(h)
	p.mu.Unlock()
	if pause {
		p.pause(h, d)
	}
}

// pause lets time pass before the next attempt, unless it is of no use any more.
func (p *Pool) pause(h *host, d *dial) {
	timer := time.NewTimer(redialPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.dial == d {
		h.dial = nil
		p.scheduleLocked(h)
	}
}

// failLocked fails all waiters of the host.
func (h *host) failLocked(err error) {
	for _, w := range h.waiters {
		w.ready <- grant{err: err}
	}
	h.waiters = nil
}

// detachDialLocked gives up the dial that the waiters share. It ends on its own, and a
// waiter that comes later starts another.
func (h *host) detachDialLocked() {
	if h.dial != nil {
		h.dial.cancel()
		h.dial = nil
	}
}

// whyWaitingLocked is the error for a waiter whose context ended.
func (h *host) whyWaitingLocked(ctx context.Context, t Target) error {
	cause := context.Cause(ctx)
	switch {
	case h.dial != nil && h.dial.failure == nil:
		return t.gaveUp(ctx, h.dial.progress.get())
	case slices.Contains(h.pool.queued, h.claim):
		return noRoom(ctx, t)
	case h.dial != nil:
		cause = errors.Join(cause, h.dial.failure)
	}
	return &Error{Layer: LayerSession, Reason: ReasonSessionLimitReached, Address: t.Endpoint(), Err: cause}
}

// afterCloseLocked gives the room of a connection that is gone to those who wait for it.
func (p *Pool) afterCloseLocked(h *host) {
	p.admitLocked()
	p.scheduleLocked(h)
}

// dropIfUnusedLocked forgets a host that nobody uses and nobody waits for.
func (p *Pool) dropIfUnusedLocked(h *host) {
	if len(h.waiters) > 0 {
		return
	}
	p.unqueueLocked(h.claim)
	if len(h.conns) == 0 && len(h.retired) == 0 && h.dial == nil && p.hosts[h.key] == h {
		delete(p.hosts, h.key)
	}
}

// allConns is a copy, because closing a connection changes the lists.
func (h *host) allConns() []*conn {
	return slices.Concat(h.conns, h.retired)
}
