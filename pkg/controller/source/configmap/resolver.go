// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// LookupFunc returns the IP addresses of a DNS name. It must return when ctx ends
// and be safe for concurrent use.
type LookupFunc func(ctx context.Context, name string) ([]netip.Addr, error)

// resolver resolves DNS names in the background and remembers what came out, so
// that nobody ever waits for DNS.
type resolver struct {
	lookup  LookupFunc
	timeout time.Duration // of one lookup
	refresh time.Duration // until a name is looked up again
	workers int
	changed func() // called, without a lock, when a resolution is new or differs
	queue   workqueue.TypedDelayingInterface[string]

	mu    sync.Mutex // guards names
	names map[string]Resolution
}

func newResolver(lookup LookupFunc, timeout, refresh time.Duration, workers int, changed func()) *resolver {
	return &resolver{
		lookup: lookup, timeout: timeout, refresh: refresh, workers: workers, changed: changed,
		queue: workqueue.NewTypedDelayingQueue[string](),
		names: map[string]Resolution{},
	}
}

// Resolve returns what is known of name. A name that was not asked for before is
// looked up from now on. It does not block.
func (r *resolver) Resolve(name string) Resolution {
	r.mu.Lock()
	known, ok := r.names[name]
	if !ok {
		known = Resolution{Pending: true}
		r.names[name] = known
	}
	r.mu.Unlock()
	if !ok {
		r.queue.Add(name)
	}
	return known
}

// Retain forgets every name for which keep is false.
func (r *resolver) Retain(keep func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.names {
		if !keep(name) {
			delete(r.names, name)
		}
	}
}

// Start looks names up until ctx ends, and returns when no lookup is running any more.
func (r *resolver) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range r.workers {
		workers.Go(func() {
			for r.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	workers.Wait()
	return nil
}

// next looks up one name and reports whether there may be more.
func (r *resolver) next(ctx context.Context) bool {
	name, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(name)
	if !r.wanted(name) {
		return true
	}
	lookupCtx, cancel := context.WithTimeout(ctx, r.timeout)
	addrs, err := r.lookup(lookupCtx, name)
	cancel()
	switch {
	case ctx.Err() != nil: // the failure is ours, it says nothing of the name
	case r.record(name, addrs, err):
		r.changed()
	}
	r.queue.AddAfter(name, r.refresh)
	return true
}

func (r *resolver) wanted(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.names[name]
	return ok
}

// record stores the outcome of a lookup and reports whether it tells anything new.
func (r *resolver) record(name string, answer []netip.Addr, err error) bool {
	var addrs []netip.Addr
	for _, addr := range answer {
		addrs = append(addrs, addr.Unmap())
	}
	// Servers rotate the order, which means nothing.
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)

	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.names[name]
	if !ok {
		return false
	}
	after := Resolution{Addresses: addrs}
	if err != nil {
		after = Resolution{Addresses: before.Addresses, Err: err}
	}
	r.names[name] = after
	return before.Pending || !slices.Equal(before.Addresses, after.Addresses)
}
