// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package coalesce

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// source is what is read. Each read waits for a value from release, and then returns how many reads have begun.
type source struct {
	begun    atomic.Int64
	canceled atomic.Int64
	release  chan error
}

func (s *source) read(ctx context.Context) (int64, error) {
	n := s.begun.Add(1)
	select {
	case err := <-s.release:
		return n, err
	case <-ctx.Done():
		s.canceled.Add(1)
		return 0, ctx.Err()
	}
}

// callers are several that ask at the same time, and what they got.
type callers struct {
	sync.WaitGroup
	got atomic.Int64 // the sum of the answers
	err atomic.Pointer[error]
}

func (c *callers) ask(ctx context.Context, g *Group[string, int64], s *source, key string) {
	c.Go(func() {
		n, err := g.Do(ctx, key, s.read)
		c.got.Add(n)
		if err != nil {
			c.err.Store(&err)
		}
	})
}

func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &source{release: make(chan error)}, &Group[string, int64]{}
		var first, later, other callers
		first.ask(t.Context(), g, s, "a")
		synctest.Wait()
		for range 10 { // they ask after the first read began, and so want another one
			later.ask(t.Context(), g, s, "a")
		}
		synctest.Wait()
		if n := s.begun.Load(); n != 1 {
			t.Fatalf("%d reads have begun, want 1 at a time", n)
		}
		other.ask(t.Context(), g, s, "b")
		synctest.Wait()
		if n := s.begun.Load(); n != 2 {
			t.Fatalf("%d reads have begun, want one of each key", n)
		}
		for range 3 {
			s.release <- nil
			synctest.Wait()
		}
		first.Wait()
		later.Wait()
		other.Wait()
		if first.got.Load() != 1 || other.got.Load() != 2 || later.got.Load() != 10*3 {
			t.Errorf("the callers got %d, %d and, ten of them together, %d; want 1, 2 and 30", first.got.Load(), other.got.Load(), later.got.Load())
		}
		if len(g.reads) != 0 {
			t.Errorf("%d keys are still read", len(g.reads))
		}
	})
}

// Where reads are bounded, those that ask more often share them, and each answer is that of a read which began after the question.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, burst = 100 * time.Millisecond, 3
		began := time.Now()
		var reads []time.Duration
		g := &Group[string, time.Duration]{Interval: interval, Burst: burst}
		read := func(context.Context) (time.Duration, error) {
			at := time.Since(began)
			reads = append(reads, at)
			return at, nil
		}
		ask := func() {
			asked := time.Since(began)
			switch at, err := g.Do(t.Context(), "a", read); {
			case err != nil:
				t.Error(err)
			case at < asked:
				t.Errorf("who asked after %s got what was read after %s", asked, at)
			}
		}
		for range burst {
			ask()
		}
		if got := time.Since(began); got != 0 {
			t.Errorf("the first %d took %s", burst, got)
		}
		var many sync.WaitGroup
		for n := range 20 { // in one and a half seconds, from here on
			many.Go(func() {
				<-time.After(time.Duration(n) * interval * 3 / 4)
				ask()
			})
		}
		many.Wait()
		if want := int(time.Since(began)/interval) + burst; len(reads) > want {
			t.Errorf("there were %d reads in %s, want %d at most", len(reads), time.Since(began), want)
		}
		if got := reads[len(reads)-1]; got >= 20*interval {
			t.Errorf("the last one was read after %s", got)
		}

		// What is known of a key is forgotten when it bounds nothing any more.
		<-time.After(burst * interval)
		if _, err := g.Do(t.Context(), "b", read); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		if _, known := g.reads["a"]; known {
			t.Error("a key that nobody reads any more is kept")
		}
	})
}

// Who leaves before a read may begin has none begin.
func TestCanceledBeforeItMayBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &source{release: make(chan error)}, &Group[string, int64]{Interval: time.Minute, Burst: 1}
		var first, leaves callers
		first.ask(t.Context(), g, s, "a")
		s.release <- nil
		first.Wait()
		leaving, leave := context.WithCancel(t.Context())
		leaves.ask(leaving, g, s, "a")
		synctest.Wait()
		leave()
		leaves.Wait()
		<-time.After(2 * time.Minute)
		if n := s.begun.Load(); n != 1 {
			t.Errorf("%d reads have begun, want only that of the one who waited for it", n)
		}
	})
}

func TestError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &source{release: make(chan error)}, &Group[string, int64]{}
		var c callers
		c.ask(t.Context(), g, s, "a")
		broken := errors.New("broken")
		s.release <- broken
		c.Wait()
		if err := c.err.Load(); err == nil || !errors.Is(*err, broken) {
			t.Errorf("the caller got error %v, want that of its read", err)
		}
	})
}

func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &source{release: make(chan error)}, &Group[string, int64]{}
		gone := errors.New("it is over")
		leaving, leave := context.WithCancelCause(t.Context())
		var stays, leaves callers

		// One of two that share a read leaves, and the other one gets it.
		stays.ask(t.Context(), g, s, "a")
		synctest.Wait()
		leaves.ask(leaving, g, s, "a")
		stays.ask(t.Context(), g, s, "a")
		synctest.Wait()
		leave(gone)
		leaves.Wait()
		if err := leaves.err.Load(); err == nil || !errors.Is(*err, gone) {
			t.Errorf("the caller that left got %v, want the cause", err)
		}
		s.release <- nil
		s.release <- nil
		stays.Wait()
		if n := stays.got.Load(); n != 1+2 {
			t.Errorf("those that stayed got %d together, want 3", n)
		}

		// A read for which nobody waits is canceled, and one that asks then has another one.
		leaving, leave = context.WithCancelCause(t.Context())
		leaves.ask(leaving, g, s, "a")
		synctest.Wait()
		leave(gone)
		leaves.Wait()
		synctest.Wait()
		if n := s.canceled.Load(); n != 1 {
			t.Errorf("%d reads were canceled, want 1", n)
		}

		// So it is with one that is not under way yet.
		leaving, leave = context.WithCancelCause(t.Context())
		stays.ask(t.Context(), g, s, "a")
		synctest.Wait()
		leaves.ask(leaving, g, s, "a")
		synctest.Wait()
		leave(gone)
		leaves.Wait()
		var late callers
		late.ask(t.Context(), g, s, "a")
		synctest.Wait()
		s.release <- nil
		s.release <- nil
		late.Wait()
		stays.Wait()
		if err := late.err.Load(); err != nil {
			t.Errorf("who asked after another one had left got %v", *err)
		}
	})
}
