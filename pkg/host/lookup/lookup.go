// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package lookup remembers what was found out about hosts.
package lookup

import (
	"context"
	"sync"
	"time"
)

// Cache has one value for each name. Callers for the same name and the same identity share the
// lookup, which goes on when the first of them leaves. The zero value is ready to use, concurrently.
type Cache[V comparable] struct {
	// Lifetime is how long a value is used. Zero: until it is forgotten.
	Lifetime time.Duration

	mu      sync.Mutex
	lookups map[string]*lookup[V]
}

// lookup is one that runs, or has found its value.
type lookup[V comparable] struct {
	// identity is as whom it was looked up.
	identity string
	// done is closed when the fields below are set. They do not change any more then.
	done  chan struct{}
	value V
	err   error
	// until is when the value expires. Zero: never.
	until time.Time
}

// Get returns the value of the name, which find looks up if it is not known, or was looked up with
// another identity. The context of find has the values of the one of its caller and does not end.
// An error is not remembered.
func (c *Cache[V]) Get(ctx context.Context, name, identity string, find func(context.Context) (V, error)) (V, error) {
	l := c.lookup(ctx, name, identity, find)
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// lookup returns the one of the name, which it starts if there is none.
func (c *Cache[V]) lookup(ctx context.Context, name, identity string, find func(context.Context) (V, error)) *lookup[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.lookups[name]; ok && l.identity == identity && !l.expired() {
		return l
	}
	if c.lookups == nil {
		c.lookups = map[string]*lookup[V]{}
	}
	l := &lookup[V]{identity: identity, done: make(chan struct{})}
	c.lookups[name] = l
	go func() {
		defer close(l.done)
		l.value, l.err = find(context.WithoutCancel(ctx))
		if c.Lifetime > 0 {
			l.until = time.Now().Add(c.Lifetime)
		}
		if l.err != nil {
			c.forget(name, func(now *lookup[V]) bool { return now == l })
		}
	}()
	return l
}

// expired reports whether the value is too old. One that is still looked up is not.
func (l *lookup[V]) expired() bool {
	return l.found() && !l.until.IsZero() && !time.Now().Before(l.until)
}

func (l *lookup[V]) found() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Forget has the next caller look up the value of the name again, also when it is being looked up
// now: what that finds may be from before.
func (c *Cache[V]) Forget(name string) {
	c.forget(name, func(*lookup[V]) bool { return true })
}

// ForgetValue is Forget for a caller that found the value wrong. It keeps what was looked up, or
// is being looked up, since.
func (c *Cache[V]) ForgetValue(name string, value V) {
	c.forget(name, func(now *lookup[V]) bool { return now.found() && now.value == value })
}

func (c *Cache[V]) forget(name string, which func(*lookup[V]) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.lookups[name]; ok && which(l) {
		delete(c.lookups, name)
	}
}
