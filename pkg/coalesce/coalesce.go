// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package coalesce has callers that ask for the same at the same time share one answer. It imports nothing of this project.
package coalesce

import (
	"context"
	"sync"
)

// Group runs one read for each key at a time. Whoever asks meanwhile waits for the next one, which begins when that one has
// ended, and gets what it returns. So unlike with singleflight, every answer is that of a read that began after it was asked for: what
// was written before a question is in its answer. The zero value is ready to use, by any number of goroutines.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	reads map[K]*reads[V]
}

// reads are those of one key, of which one is under way.
type reads[V any] struct {
	// next is the one after it. Nil: nobody waits for it.
	next *read[V]
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
// context of one of its callers. It is canceled when none of them waits any more; nothing else bounds its time. Of ctx Do fails with its cause. The value is shared, and must not be changed.
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

// join adds a caller to the next read of a key, which begins at once if none is under way.
func (g *Group[K, V]) join(ctx context.Context, key K, run func(ctx context.Context) (V, error)) *read[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	of, running := g.reads[key]
	if !running {
		of = &reads[V]{}
		if g.reads == nil {
			g.reads = map[K]*reads[V]{}
		}
		g.reads[key] = of
	}
	if of.next == nil || of.next.waiting == 0 { // it was canceled
		of.next = &read[V]{run: run, done: make(chan struct{})}
		of.next.ctx, of.next.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	r := of.next
	r.waiting++
	if !running {
		of.next = nil
		go g.work(key, of, r)
	}
	return r
}

// leave takes a caller away that waits no longer.
func (g *Group[K, V]) leave(r *read[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
	}
}

// work runs a read of a key, and those that are asked for meanwhile, one after the other. It ends with the last of them.
func (g *Group[K, V]) work(key K, of *reads[V], r *read[V]) {
	for r != nil {
		r.value, r.err = r.run(r.ctx)
		r.cancel()
		close(r.done)
		g.mu.Lock()
		r, of.next = of.next, nil
		if r == nil {
			delete(g.reads, key)
		}
		g.mu.Unlock()
	}
}
