// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package workpool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	narrow Lane = "narrow"
	wide   Lane = "wide"

	// testDeadline ends a test that waits for something that does not happen.
	testDeadline = 20 * time.Second
)

func keyOf(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testDeadline):
		t.Fatalf("waited for %s", what)
	}
	panic("not reached")
}

// start runs a pool until the test ends, and makes sure that it then stops.
func start(t *testing.T, p *Pool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- p.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(t, stopped, "the pool to stop"); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// script is work that tests conduct.
type script struct {
	began, ended chan string
	// leave ends all of it that does not end with its context.
	leave chan struct{}
}

func newScript() *script {
	return &script{began: make(chan string, 100), ended: make(chan string, 100), leave: make(chan struct{})}
}

func (s *script) work(i int, l Lane) Work {
	return Work{
		Key: keyOf(i), Lane: l,
		Run: func(ctx context.Context, _ func() bool) {
			s.began <- keyOf(i).Name
			select {
			case <-s.leave:
			case <-ctx.Done():
			}
		},
		Ended: func(context.Context) { s.ended <- keyOf(i).Name },
	}
}

func TestLimits(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 2}, wide: {}})
	for i := range 3 {
		p.Submit(s.work(i, narrow))
	}
	if load := p.Load(narrow); load != (Load{Waiting: 3}) {
		t.Errorf("before the start there is %+v", load)
	}
	start(t, p)
	for i := range 5 {
		p.Submit(s.work(10+i, wide))
	}
	for range 2 + 5 {
		receive(t, s.began, "the work that has a worker")
	}
	if n, w := p.Load(narrow), p.Load(wide); n != (Load{Running: 2, Waiting: 1}) || w != (Load{Running: 5}) || len(s.began) > 0 {
		t.Errorf("got %+v and %+v", n, w)
	}
	p.Move(keyOf(0), wide) // it runs already, or is where it needs no worker
	p.Move(keyOf(2), wide)
	if got := receive(t, s.began, "the work that was moved"); got != "2" {
		t.Errorf("got %s", got)
	}
	close(s.leave)
	for range 8 {
		receive(t, s.ended, "all to end")
	}
}

func TestOneAtATime(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 3}})
	start(t, p)
	stubborn := s.work(1, narrow)
	stubborn.Run = func(context.Context, func() bool) { // does not mind its context
		s.began <- "first"
		<-s.leave
	}
	stubborn.Ended = func(context.Context) { s.ended <- "first" }
	if !p.Submit(stubborn) || !p.Busy(keyOf(1)) || p.Submit(s.work(1, narrow)) {
		t.Error("there can be work twice")
	}
	receive(t, s.began, "the first work")
	if p.Cancel(keyOf(1)) || p.Busy(keyOf(1)) {
		t.Error("work that was canceled keeps the object busy")
	}
	if !p.Submit(s.work(1, narrow)) || p.Submit(s.work(1, narrow)) || !p.Busy(keyOf(1)) || len(s.began) > 0 {
		t.Error("not exactly one waits for the end of what was canceled")
	}
	close(s.leave)
	if got := receive(t, s.began, "the second work"); got != "1" {
		t.Errorf("got %s", got)
	}
	for range 2 {
		receive(t, s.ended, "both to end")
	}
	if p.Busy(keyOf(1)) {
		t.Error("the object is still busy")
	}
}

func TestCancel(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1}})
	start(t, p)
	causes := make(chan error, 1)
	p.Submit(Work{Key: keyOf(1), Lane: narrow, Run: func(ctx context.Context, _ func() bool) {
		s.began <- "1"
		<-ctx.Done()
		causes <- context.Cause(ctx)
	}})
	receive(t, s.began, "the first work")
	p.Submit(s.work(2, narrow))
	p.Submit(s.work(3, narrow))
	if !p.Cancel(keyOf(2)) || p.Cancel(keyOf(9)) || p.Cancel(keyOf(1)) {
		t.Error("it is not known what has not begun")
	}
	if got := receive(t, causes, "the end of the first work"); !errors.Is(got, context.Canceled) {
		t.Errorf("got cause %v", got)
	}
	if got := receive(t, s.began, "the third work"); got != "3" || len(s.began) > 0 {
		t.Errorf("%s began", got)
	}
}

func TestDetach(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1, Detached: 2}})
	start(t, p)
	detached := make(chan bool, 1)
	for i := range 4 {
		p.Submit(Work{Key: keyOf(i), Lane: narrow, Run: func(_ context.Context, detach func() bool) {
			s.began <- keyOf(i).Name
			first := detach()
			detached <- first && detach() // once is enough
			<-s.leave
		}})
	}
	for i := range 3 {
		if got := receive(t, s.began, "the next work"); got != keyOf(i).Name {
			t.Errorf("%s began, want %d", got, i)
		}
		if got := receive(t, detached, "it to give its worker back"); got != (i < 2) {
			t.Errorf("%d gave its worker back: %v", i, got)
		}
	}
	if load := p.Load(narrow); load != (Load{Running: 1, Detached: 2, Waiting: 1}) || len(s.began) > 0 {
		t.Errorf("got %+v", load)
	}
	close(s.leave)
	receive(t, s.began, "the last work")
}

func TestStopWaits(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1}})
	stop := start(t, p)
	p.Submit(s.work(1, narrow))
	p.Submit(s.work(2, narrow))
	receive(t, s.began, "the first work")
	stop()
	if len(s.ended) != 1 {
		t.Error("Start returned before the work had ended")
	}
	p.Submit(s.work(3, narrow))
	if len(s.began) > 0 {
		t.Error("work began after the stop")
	}
}

// TestManyAtOnce: whatever comes between, no object has two pieces of work and no lane more
// than it has workers.
func TestManyAtOnce(t *testing.T) {
	const workers, keys, callers = 4, 5, 8
	p := New(map[Lane]Limits{narrow: {Workers: workers, Detached: 1}, wide: {Workers: workers}})
	stop := start(t, p)
	var running atomic.Int32
	var busy [keys]atomic.Bool
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range 500 {
				i := (n + c) % keys
				lane := narrow
				if n%2 == 0 {
					lane = wide
				}
				p.Submit(Work{Key: keyOf(i), Lane: lane, Run: func(_ context.Context, detach func() bool) {
					if busy[i].Swap(true) {
						t.Error("an object has two pieces of work")
					}
					if running.Add(1) > 2*workers+1 {
						t.Error("more run than there are workers")
					}
					if n%7 == 0 {
						detach()
					}
					running.Add(-1)
					busy[i].Store(false)
				}})
				switch n % 5 {
				case 0:
					p.Cancel(keyOf(i))
				case 1:
					p.Move(keyOf(i), wide)
				case 2:
					p.Busy(keyOf(i))
				}
			}
		})
	}
	wg.Wait()
	stop()
	for _, lane := range []Lane{narrow, wide} {
		if load := p.Load(lane); load.Running+load.Detached != 0 {
			t.Errorf("%+v after the stop", load)
		}
	}
}
