// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
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

func TestResolverForgets(t *testing.T) {
	r := newResolver(nil, 0, 0, 0, nil)
	defer r.queue.ShutDown()
	r.Resolve("a")
	r.Resolve("b")
	r.Retain(func(name string) bool { return name == "b" })
	if r.wanted("a") || !r.wanted("b") {
		t.Error("want only b to be kept")
	}
	if r.record("a", nil, nil) {
		t.Error("the answer for a name that is not wanted any more is a change")
	}
}
