// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// startResolver runs a resolver until the test ends. Each change is sent to the
// channel that it returns.
func startResolver(t *testing.T, lookup LookupFunc, refresh time.Duration) (*resolver, <-chan struct{}) {
	t.Helper()
	changed := make(chan struct{}, 100)
	r := newResolver(lookup, time.Minute, refresh, 2, func() { changed <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return r, changed
}

func TestResolverDoesNotBlockOnASlowName(t *testing.T) {
	r, changed := startResolver(t, func(ctx context.Context, name string) ([]netip.Addr, error) {
		if name == "slow" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		// Unordered, twice, and IPv4 in the form of IPv6, as resolvers may answer.
		return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
	}, time.Hour)

	for _, name := range []string{"slow", "fast"} {
		if got := r.Resolve(name); !got.Pending {
			t.Errorf("first Resolve(%q) = %+v, want pending", name, got)
		}
	}
	<-changed
	want := Resolution{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}}
	if diff := cmp.Diff(want, r.Resolve("fast"), compareAddrs); diff != "" {
		t.Errorf("fast (-want +got):\n%s", diff)
	}
	if got := r.Resolve("slow"); !got.Pending {
		t.Errorf("slow = %+v, want pending", got)
	}
}

func TestResolverLooksUpAgain(t *testing.T) {
	answers := make(chan []netip.Addr)
	r, changed := startResolver(t, func(ctx context.Context, _ string) ([]netip.Addr, error) {
		select {
		case addrs := <-answers:
			if addrs == nil {
				return nil, errors.New("SERVFAIL")
			}
			return addrs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, time.Millisecond)

	one, two := []netip.Addr{netip.MustParseAddr("10.0.0.1")}, []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	r.Resolve("a")
	answers <- one
	<-changed
	answers <- one // the same again is no change
	answers <- nil // and neither is a failure: what was known is kept
	answers <- two // taken only after the failure was recorded
	<-changed
	if got := r.Resolve("a"); !slices.Equal(got.Addresses, two) || got.Err != nil {
		t.Errorf("got %+v, want %v", got, two)
	}
	if len(changed) > 0 {
		t.Error("a lookup without news was reported as a change")
	}
}

func TestResolverKeepsAddressesOnFailure(t *testing.T) {
	r := newResolver(nil, 0, 0, 0, nil)
	defer r.queue.ShutDown()
	one := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	r.Resolve("a")
	if !r.record("a", one, nil) {
		t.Error("the first answer is no change")
	}
	failure := errors.New("SERVFAIL")
	if r.record("a", nil, failure) {
		t.Error("a failure is a change")
	}
	if got := r.Resolve("a"); !slices.Equal(got.Addresses, one) || !errors.Is(got.Err, failure) {
		t.Errorf("got %+v, want the addresses of before and the error", got)
	}
	r.Resolve("b")
	if !r.record("b", nil, failure) {
		t.Error("the first answer is a failure, and that is no change")
	}
}

// bubble is a resolver on a clock of its own, with one worker. The test answers its lookups.
type bubble struct {
	*resolver
	*testing.T
	lookups chan string
	answer  func(ctx context.Context) ([]netip.Addr, error) // of the lookups that begin after it was set
	changes atomic.Int32
	stop    context.CancelFunc
	ended   atomic.Bool
}

// inBubble runs a test of a resolver that gives up a lookup after 5 seconds and repeats it after 3 minutes.
func inBubble(t *testing.T, test func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, lookups: make(chan string, 100)}
		b.answer = func(context.Context) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil }
		b.resolver = newResolver(func(ctx context.Context, name string) ([]netip.Addr, error) {
			b.lookups <- name
			return b.answer(ctx)
		}, 5*time.Second, 3*time.Minute, 1, func() { b.changes.Add(1) })
		var ctx context.Context
		ctx, b.stop = context.WithCancel(t.Context())
		defer b.stop()
		go func() {
			if err := b.Start(ctx); err != nil {
				t.Error(err)
			}
			b.ended.Store(true)
		}()
		test(b)
	})
}

// after lets time pass, and checks which names were looked up in it.
func (b *bubble) after(d time.Duration, want ...string) {
	b.Helper()
	<-time.After(d)
	synctest.Wait()
	var got []string
	for len(b.lookups) > 0 {
		got = append(got, <-b.lookups)
	}
	if !slices.Equal(got, want) {
		b.Errorf("looked up %q, want %q", got, want)
	}
}

// A name is looked up as often as it has to be, and not each time when somebody asks.
func TestResolverAsksDNSRarely(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for range 3 {
			b.Resolve("a")
		}
		b.after(0, "a")
		b.Resolve("a")
		b.after(3*time.Minute - time.Second)
		b.after(time.Second, "a")
		if n := b.changes.Load(); n != 1 {
			b.Errorf("%d changes", n)
		}
	})
}

// A server that does not answer is waited for no longer than a lookup may take, and asked again.
func TestResolverGivesUp(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.answer = func(ctx context.Context) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }
		b.Resolve("a")
		b.after(5*time.Second-1, "a")
		if got := b.Resolve("a"); !got.Pending {
			b.Errorf("got %+v", got)
		}
		b.after(1)
		if got := b.Resolve("a"); got.Pending || !errors.Is(got.Err, context.DeadlineExceeded) || b.changes.Load() != 1 {
			b.Errorf("got %+v, %d changes", got, b.changes.Load())
		}
		b.after(3*time.Minute, "a")
	})
}

// A name that no entry has any more is not looked up again, whatever comes of its last lookup, and
// keeps nobody from the others.
func TestResolverForgets(t *testing.T) {
	inBubble(t, func(b *bubble) {
		answers := make(chan []netip.Addr)
		b.answer = func(context.Context) ([]netip.Addr, error) { return <-answers, nil }
		one := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
		b.Resolve("a")
		b.Resolve("b")
		b.Resolve("c")
		b.after(0, "a")
		b.Retain(func(name string) bool { return name == "c" })
		answers <- one
		b.after(0, "c")
		answers <- one
		b.after(2 * time.Minute)
		if b.wanted("a") || b.wanted("b") || !b.wanted("c") || b.changes.Load() != 1 {
			b.Errorf("want only c to be kept, %d changes", b.changes.Load())
		}
		b.after(time.Minute, "c")
		answers <- one
	})
}

// When it has ended, no lookup is running; how that one ends says nothing of the name.
func TestResolverEnds(t *testing.T) {
	inBubble(t, func(b *bubble) {
		release := make(chan bool)
		b.answer = func(context.Context) ([]netip.Addr, error) { <-release; return nil, errors.New("canceled") }
		b.Resolve("a")
		b.after(0, "a")
		b.stop()
		b.after(time.Hour)
		if b.ended.Load() {
			b.Error("it ended before its last lookup")
		}
		close(release)
		b.after(0)
		if got := b.Resolve("a"); !b.ended.Load() || !got.Pending || b.changes.Load() != 0 {
			b.Errorf("ended: %v, got %+v, %d changes", b.ended.Load(), got, b.changes.Load())
		}
	})
}
