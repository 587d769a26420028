// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package coalesce has callers that ask for the same at the same time share one answer. It imports nothing of this project.
package coalesce

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Group runs one read for each key at a time. Whoever asks meanwhile waits for the next one, which begins when that one has
// ended, and gets what it returns. So unlike with singleflight, every answer is that of a read that began after it was asked for: what
// was written before a question is in its answer. The zero value is ready to use, by any number of goroutines.
type Group[K comparable, V any] struct {
	// Interval and Burst limit the reads of one key: Burst at once, then one in each Interval. Callers then wait longer, and more of them
	// share a read. Interval 0: there is no limit. Burst 0 is 1. They must not be changed after the first use.
	Interval time.Duration
	Burst    int

	mu    sync.Mutex
	reads map[K]*reads[V]
}

// reads are those of one key, of which one is under way at a time.
type reads[V any] struct {
	// working: a goroutine does them.
	working bool
	// limiter is the limit of the key. Nil: there is none.
	limiter *rate.Limiter
	// next is the one that has not begun. Nil: nobody waits for it.
	next *read[V]
}

// idle says that nothing has to be known of these reads any more.
func (r *reads[V]) idle() bool {
	return !r.working && (r.limiter == nil || r.limiter.Tokens() >= float64(r.limiter.Burst()))
}

// read is one read and what it returned.
type read[V any] struct {
	// waiting is how many callers it is still for. The lock of the group is for it; the rest is set before anybody waits, and its result before done is closed.
	waiting int
	ctx     context.Context //nolint:containedctx // the read is for several callers, and has the context of none of them
	cancel  context.CancelFunc
	run     func(ctx context.Context) (V, error)
	done    chan struct{}
	value   V
	err     error
}

// Do returns what run returns, which may have been that of another caller with the same key, and fails as it does. run has the values of the
// context of one of its callers. It is canceled when none of them waits any more; nothing else bounds its time. When ctx ends, Do fails with its cause. The value is shared, and must not be changed.
func (g *Group[K, V]) Do(ctx context.Context, key K, run func(ctx context.Context) (V, error)) (V, error) {
	r := g.join(ctx, key, run)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		g.leave(r)
		var none V
		return none, context.Cause(ctx)
	}
}

// join adds a caller to the next read of a key, which begins as soon as it may if none is under way.
func (g *Group[K, V]) join(ctx context.Context, key K, run func(ctx context.Context) (V, error)) *read[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.readsLocked(key)
	if of.next == nil || of.next.waiting == 0 { // it was canceled
		of.next = &read[V]{run: run, done: make(chan struct{})}
		of.next.ctx, of.next.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	r := of.next
	r.waiting++
	if !of.working {
		of.working = true
		go g.work(of)
	}
	return r
}

// readsLocked returns the reads of a key.
func (g *Group[K, V]) readsLocked(key K) *reads[V] {
	of, known := g.reads[key]
	if !known {
		of = &reads[V]{}
		if g.Interval > 0 {
			of.limiter = rate.NewLimiter(rate.Every(g.Interval), max(g.Burst, 1))
		}
		if g.reads == nil {
			g.reads = map[K]*reads[V]{}
		}
		g.reads[key] = of
	}
	return of
}

// leave takes a caller away that waits no longer.
func (g *Group[K, V]) leave(r *read[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
	}
}

// work does the reads of a key that are asked for, one after the other. It ends with the last of them.
func (g *Group[K, V]) work(of *reads[V]) {
	for r := g.begin(of); r != nil; r = g.begin(of) {
		r.value, r.err = r.run(r.ctx)
		r.cancel()
		close(r.done)
	}
}

// begin waits until the next read of a key may begin, and returns it. Nil: nobody waits for one any more.
func (g *Group[K, V]) begin(of *reads[V]) *read[V] {
	for next := g.wanted(of); next != nil; next = g.wanted(of) {
		if of.limiter != nil && of.limiter.Wait(next.ctx) != nil {
			continue // those who waited for it have left
		}
		if r := g.take(of); r != nil {
			return r
		}
	}
	return nil
}

// take takes the next read of a key, which is no longer to be joined. Nil: those who waited for it have left.
func (g *Group[K, V]) take(of *reads[V]) *read[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := of.next
	of.next = nil
	if r == nil || r.waiting == 0 {
		return nil
	}
	return r
}

// wanted returns the next read of a key. Nil: nobody waits for one; then the goroutine that does them is to end, and keys of which
// nothing has to be known any more are forgotten.
func (g *Group[K, V]) wanted(of *reads[V]) *read[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of.next != nil && of.next.waiting > 0 {
		return of.next
	}
	of.next, of.working = nil, false
	for key, reads := range g.reads {
		if reads.idle() {
			delete(g.reads, key)
		}
	}
	return nil
}
