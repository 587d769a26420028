// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package workpool

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// in is work in a namespace that does what run does.
func in(namespace string, i int, run func(ctx context.Context, detach func() bool)) Work {
	return Work{Key: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, Lane: narrow, Run: run}
}

// What hangs in one namespace leaves workers to the others, and who has least of them is next.
func TestNamespacesShare(t *testing.T) {
	p := New(map[Lane]Limits{narrow: {Workers: 4}})
	start(t, p)
	began, leave := make(chan string, 100), make(chan struct{})
	submit := func(namespace string, i int) {
		p.Submit(in(namespace, i, func(ctx context.Context, _ func() bool) {
			began <- namespace
			left := leave
			if namespace == "neighbor" {
				left = nil
			}
			select {
			case <-left:
			case <-ctx.Done():
			}
		}))
	}
	for i := range 10 {
		submit("tarpit", i)
	}
	for range 3 {
		receive(t, began, "what the namespace may have")
	}
	submit("neighbor", 1)
	if got := receive(t, began, "the neighbor"); got != "neighbor" {
		t.Fatalf("%s began", got)
	}
	if load := p.Load(narrow); load.Running != 4 || load.Waiting != 7 {
		t.Errorf("got %+v", load)
	}
	submit("neighbor", 2)
	submit("third", 1)
	leave <- struct{}{}
	if got := receive(t, began, "the third, which has none"); got != "third" {
		t.Errorf("%s began", got)
	}
	close(leave)
	for range 8 {
		receive(t, began, "what was left")
	}
}

// Likewise with what gave its worker back.
func TestNamespacesShareDetached(t *testing.T) {
	p := New(map[Lane]Limits{narrow: {Workers: 100, Detached: 4}})
	start(t, p)
	answers := make(chan bool, 10)
	detaches := func(ctx context.Context, detach func() bool) {
		answers <- detach()
		<-ctx.Done()
	}
	for i := range 5 {
		p.Submit(in("tarpit", i, detaches))
	}
	detached := 0
	for range 5 {
		if receive(t, answers, "an answer") {
			detached++
		}
	}
	if detached != 3 {
		t.Errorf("%d gave their workers back, want 3", detached)
	}
	p.Submit(in("neighbor", 1, detaches))
	if !receive(t, answers, "an answer") {
		t.Error("the neighbor has to keep its worker")
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
	if !p.Cancel(keyOf(2)) || p.Busy(keyOf(2)) || p.Cancel(keyOf(9)) || p.Cancel(keyOf(1)) {
		t.Error("it is not known what has not begun")
	}
	if got := receive(t, causes, "the end of the first work"); !errors.Is(got, context.Canceled) {
		t.Errorf("got cause %v", got)
	}
	if got := receive(t, s.began, "the third work"); got != "3" || len(s.began) > 0 {
		t.Errorf("%s began", got)
	}
}

// What follows canceled work can be canceled, too.
func TestCancelSuccessor(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1}})
	start(t, p)
	p.Submit(Work{Key: keyOf(1), Lane: narrow, Run: func(context.Context, func() bool) { // does not mind its context
		s.began <- "first"
		<-s.leave
	}})
	receive(t, s.began, "the first work")
	p.Cancel(keyOf(1))
	if !p.Submit(s.work(1, narrow)) || p.Cancel(keyOf(1)) || p.Busy(keyOf(1)) {
		t.Error("the second work is still to be done")
	}
	p.Submit(s.work(2, narrow))
	close(s.leave)
	if got := receive(t, s.began, "other work"); got != "2" {
		t.Errorf("%s began", got)
	}
}

func TestMove(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1}, wide: {Workers: 1}})
	start(t, p)
	p.Submit(s.work(1, narrow))
	receive(t, s.began, "the first work")
	p.Submit(s.work(9, wide))
	receive(t, s.began, "the work in the other lane")
	for i := 2; i <= 4; i++ {
		p.Submit(s.work(i, narrow))
	}
	p.Move(keyOf(1), wide)   // it runs already
	p.Move(keyOf(2), narrow) // it waits there already, and stays the first
	p.Move(keyOf(8), wide)   // there is no such work
	p.Move(keyOf(4), wide)
	if n, w := p.Load(narrow), p.Load(wide); n != (Load{Running: 1, Waiting: 2}) || w != (Load{Running: 1, Waiting: 1}) {
		t.Errorf("got %+v and %+v", n, w)
	}
	p.Cancel(keyOf(1))
	if got := receive(t, s.began, "the next work"); got != "2" {
		t.Errorf("%s began", got)
	}
	p.Cancel(keyOf(9))
	if got := receive(t, s.began, "the work that was moved"); got != "4" {
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

// Without a limit all of it may go on without a worker. Each piece is counted once.
func TestDetachUnlimited(t *testing.T) {
	s := newScript()
	p := New(map[Lane]Limits{narrow: {Workers: 1}})
	start(t, p)
	const n = 3
	detachers := make(chan func() bool, n)
	for i := range n {
		w := s.work(i, narrow)
		w.Run = func(_ context.Context, detach func() bool) {
			if !detach() {
				t.Error("it keeps its worker")
			}
			detachers <- detach
			<-s.leave
		}
		p.Submit(w)
	}
	late := make([]func() bool, n)
	for i := range late {
		late[i] = receive(t, detachers, "it to give its worker back")
	}
	if load := p.Load(narrow); load != (Load{Detached: n}) {
		t.Errorf("got %+v", load)
	}
	close(s.leave)
	for range n {
		receive(t, s.ended, "all to end")
	}
	// What has ended has no worker to give back.
	p.Submit(Work{Key: keyOf(n), Lane: narrow, Run: func(_ context.Context, detach func() bool) { detachers <- detach }, Ended: func(context.Context) { s.ended <- "" }})
	receive(t, s.ended, "the last work to end")
	last := receive(t, detachers, "its worker")
	for _, detach := range slices.Concat(late, []func() bool{last}) {
		if !detach() {
			t.Error("what has ended keeps a worker")
		}
	}
	if load := p.Load(narrow); load != (Load{}) {
		t.Errorf("after the end: %+v", load)
	}
}

// Two processes that both work would do the same to a host at the same time.
func TestOnlyTheLeaderWorks(t *testing.T) {
	if !New(nil).NeedLeaderElection() {
		t.Error("a process that does not lead works")
	}
}

// The process must not end in the middle of work: the next leader would do the same to a host.
func TestStopWaits(t *testing.T) {
	const n = 50
	p := New(map[Lane]Limits{narrow: {Workers: n}})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- p.Start(ctx) }()
	began, gate := make(chan struct{}, n+1), make(chan struct{})
	work := func(i int) Work {
		return Work{Key: types.NamespacedName{Namespace: fmt.Sprint(i % 5), Name: fmt.Sprint(i)}, Lane: narrow, Run: func(ctx context.Context, _ func() bool) {
			began <- struct{}{}
			<-ctx.Done()
			gate <- struct{}{}
		}}
	}
	for i := range n + 1 {
		p.Submit(work(i))
	}
	for range n {
		receive(t, began, "work to begin")
	}
	cancel()
	for range n {
		select {
		case <-gate:
		case <-stopped:
			t.Fatal("Start returned before the work had ended")
		}
	}
	if err := receive(t, stopped, "the pool to stop"); err != nil {
		t.Error(err)
	}
	p.Submit(work(n + 1))
	if load := p.Load(narrow); load != (Load{Waiting: 2}) || len(began) > 0 {
		t.Errorf("work began after the stop: %+v", load)
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
