// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lookup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// held is a lookup that ends when the test says so.
type held struct {
	began, end chan struct{}
}

func newHeld() *held { return &held{make(chan struct{}), make(chan struct{})} }

func (h *held) find(value string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		close(h.began)
		<-h.end
		return value, ctx.Err()
	}
}

func finds(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

// get is [Cache.Get] with an answer that has to be right.
func get(t *testing.T, c *Cache[string], find func(context.Context) (string, error), want string) {
	t.Helper()
	if got, err := c.Get(t.Context(), "host", "me", find); got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestOnce: whenever callers come, the value is looked up once.
func TestOnce(t *testing.T) {
	var wait sync.WaitGroup
	for range 200 {
		var c Cache[string]
		var n atomic.Int32
		for range 8 {
			wait.Go(func() {
				get(t, &c, func(context.Context) (string, error) { n.Add(1); return "value", nil }, "value")
			})
		}
		wait.Wait()
		if n := n.Load(); n != 1 {
			t.Fatalf("it was looked up %d times", n)
		}
	}
}

// TestForgottenMeanwhile: what is being looked up when it is forgotten may be from before. Only
// who waits for it already gets it.
func TestForgottenMeanwhile(t *testing.T) {
	var c Cache[string]
	var wait sync.WaitGroup
	h := newHeld()
	wait.Go(func() { get(t, &c, h.find("before"), "before") })
	<-h.began
	c.Forget("host")
	get(t, &c, finds("after"), "after")
	close(h.end)
	wait.Wait()
	get(t, &c, finds("again"), "after")
}

// TestFailedMeanwhile: a lookup that was given up and fails leaves the one after it alone.
func TestFailedMeanwhile(t *testing.T) {
	var c Cache[string]
	var wait sync.WaitGroup
	h := newHeld()
	wait.Go(func() {
		_, err := c.Get(t.Context(), "host", "me", func(ctx context.Context) (string, error) {
			_, _ = h.find("")(ctx)
			return "", errors.New("refused")
		})
		if err == nil {
			t.Error("it did not fail")
		}
	})
	<-h.began
	c.Forget("host")
	get(t, &c, finds("after"), "after")
	close(h.end)
	wait.Wait()
	get(t, &c, finds("again"), "after")
}

// TestAnotherIdentity: what one identity finds, waits for or fails with is nothing to another one.
func TestAnotherIdentity(t *testing.T) {
	var c Cache[string]
	var wait sync.WaitGroup
	h := newHeld()
	refused := errors.New("refused")
	wait.Go(func() {
		_, err := c.Get(t.Context(), "host", "other", func(ctx context.Context) (string, error) {
			_, _ = h.find("")(ctx)
			return "", refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("the other one: %v", err)
		}
	})
	<-h.began
	get(t, &c, finds("value"), "value")
	close(h.end)
	wait.Wait()
	get(t, &c, finds("again"), "value")
	if got, err := c.Get(t.Context(), "host", "other", finds("its own")); got != "its own" || err != nil {
		t.Errorf("the other one: %q, %v", got, err)
	}
	get(t, &c, finds("after it"), "after it")
}

func TestForgetValue(t *testing.T) {
	var c Cache[string]
	get(t, &c, finds("old"), "old")
	c.ForgetValue("host", "old")
	get(t, &c, finds("new"), "new")
	c.ForgetValue("host", "old") // another caller found it wrong as well
	get(t, &c, finds("newer"), "new")

	c.Forget("host")
	var wait sync.WaitGroup
	h := newHeld()
	wait.Go(func() { get(t, &c, h.find("newest"), "newest") })
	<-h.began
	c.ForgetValue("host", "new")
	c.ForgetValue("host", "") // which it has until it is found
	wait.Go(func() { get(t, &c, finds("looked up twice"), "newest") })
	close(h.end)
	wait.Wait()
	c.ForgetValue("other", "newest")
	get(t, &c, finds("again"), "newest")
}

func TestErrors(t *testing.T) {
	var c Cache[string]
	refused := errors.New("refused")
	if _, err := c.Get(t.Context(), "host", "me", func(context.Context) (string, error) { return "", refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	get(t, &c, finds("value"), "value")
}

// TestLeaving: a caller that leaves does not end the lookup of others.
func TestLeaving(t *testing.T) {
	var c Cache[string]
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	h := newHeld()
	wait.Go(func() {
		if _, err := c.Get(ctx, "host", "me", h.find("value")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	<-h.began
	cancel()
	wait.Wait()
	close(h.end)
	get(t, &c, finds("looked up twice"), "value")
}

func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Cache[string]{Lifetime: time.Minute}
		get(t, &c, finds("first"), "first")
		<-time.After(time.Minute - 1)
		get(t, &c, finds("second"), "first")
		<-time.After(1)
		get(t, &c, finds("third"), "third")

		forever := Cache[string]{}
		get(t, &forever, finds("first"), "first")
		<-time.After(1000 * time.Hour)
		get(t, &forever, finds("second"), "first")
	})
}
