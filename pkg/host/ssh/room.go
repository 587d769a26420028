// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"cmp"
	"context"
	"slices"
)

// usage is how many connections there are, of a namespace or of all.
type usage struct {
	open    int // being made, open or being closed
	closing int // of those: being closed
}

// left is how many there are when those that are being closed are gone.
func (u usage) left() int { return u.open - u.closing }

// claim is a need for one more connection that waits for room. There is none for a namespace
// that has its share, and for nobody when there are MaxConns.
type claim struct {
	namespace string
	// grant is called when there is room, with Pool.mu held. It takes the room if that is still needed.
	grant func()
}

// shareOf is how many of n connections one namespace may have.
func shareOf(n int) int { return n - n/4 }

// noRoom is the error for a caller whose context ended while it waited for room.
func noRoom(ctx context.Context, t Target) *Error {
	e := contextError(ctx, LayerConnect, t.Endpoint())
	if e.Reason != ReasonPoolClosed {
		e.Reason = ReasonLimitReached
	}
	return e
}

// takeRoomLocked counts one more connection of a namespace.
func (p *Pool) takeRoomLocked(namespace string) {
	u := p.namespaces[namespace]
	u.open++
	p.namespaces[namespace] = u
	p.total.open++
}

// closingLocked says of a connection of a namespace that it will be gone soon.
func (p *Pool) closingLocked(namespace string) {
	u := p.namespaces[namespace]
	u.closing++
	p.namespaces[namespace] = u
	p.total.closing++
}

// closedLocked ends what closingLocked said, before the room is given back.
func (p *Pool) closedLocked(namespace string) {
	u := p.namespaces[namespace]
	u.closing--
	p.namespaces[namespace] = u
	p.total.closing--
}

// giveRoomBackLocked is called when a connection of a namespace is gone. [Pool.admitLocked] follows.
func (p *Pool) giveRoomBackLocked(namespace string) {
	u := p.namespaces[namespace]
	u.open--
	if p.namespaces[namespace] = u; u.open == 0 {
		delete(p.namespaces, namespace)
	}
	p.total.open--
}

func (p *Pool) hasRoomLocked(namespace string) bool {
	return p.total.open < p.opts.MaxConns && p.namespaces[namespace].open < shareOf(p.opts.MaxConns)
}

// waitForRoomLocked has a claim wait, and closes an idle connection for it if there is one.
func (p *Pool) waitForRoomLocked(c *claim) {
	if !slices.Contains(p.queued, c) {
		p.queued = append(p.queued, c)
	}
	p.makeRoomLocked()
}

// admitLocked gives the room that there is to those who wait for it: to the namespace that has
// least connections, and in that to who came first.
func (p *Pool) admitLocked() {
	for !p.closed {
		var next *claim
		for _, c := range p.queued {
			if p.hasRoomLocked(c.namespace) && (next == nil || p.namespaces[c.namespace].open < p.namespaces[next.namespace].open) {
				next = c
			}
		}
		if next == nil {
			return
		}
		p.unqueueLocked(next)
		next.grant()
	}
}

func (p *Pool) unqueueLocked(c *claim) {
	p.queued = slices.DeleteFunc(p.queued, func(o *claim) bool { return o == c })
}

// makeRoomLocked closes an idle connection for each claim that waits, less those that are being
// closed already: of its own namespace if that has its share, else of the one that has most. It is
// the one that has been idle for longest.
func (p *Pool) makeRoomLocked() {
	if len(p.queued) == 0 {
		return
	}
	idle := p.idleLocked()
	left, total := map[string]int{}, p.total.left()
	for namespace, u := range p.namespaces {
		left[namespace] = u.left()
	}
	for _, c := range p.queued {
		if len(idle) == 0 {
			return
		}
		var goes int // its index in idle; negative: none
		switch {
		case left[c.namespace] >= shareOf(p.opts.MaxConns):
			goes = slices.IndexFunc(idle, func(i *conn) bool { return i.namespace() == c.namespace })
		case total >= p.opts.MaxConns:
			most := slices.MaxFunc(idle, func(a, b *conn) int { return cmp.Compare(left[a.namespace()], left[b.namespace()]) })
			goes = slices.Index(idle, most)
		default: // what is being closed makes room for it
			left[c.namespace]++
			total++
			continue
		}
		if goes < 0 {
			continue
		}
		p.stats.IdleClosed++
		idle[goes].closeLocked(idle[goes].lost(errEvicted))
		left[idle[goes].namespace()]--
		left[c.namespace]++
		idle = slices.Delete(idle, goes, goes+1)
	}
}

// idleLocked are the connections that nobody uses, that which was not used for longest first.
func (p *Pool) idleLocked() []*conn {
	var idle []*conn
	for _, h := range p.hosts {
		for _, c := range h.conns {
			if c.idle() {
				idle = append(idle, c)
			}
		}
	}
	slices.SortFunc(idle, func(a, b *conn) int { return a.lastUsed.Compare(b.lastUsed) })
	return idle
}

// namespace is the one that the connection counts for.
func (c *conn) namespace() string { return c.host.key.namespace }
