// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

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

func TestRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: fmt.Sprint(i)} }
		r := newRunner(2, clock.RealClock{})
		began, ended := make(chan string, 10), make(chan string, 10)
		release := make(chan struct{})
		r.execute = func(ctx context.Context, key types.NamespacedName, id string, canceled <-chan struct{}, _ func()) time.Duration {
			began <- key.Name + id
			select {
			case <-release:
			case <-canceled:
			case <-ctx.Done():
			}
			return 0
		}
		r.notify = func(_ context.Context, key types.NamespacedName) { ended <- key.Name }
		for i := range 4 {
			r.submit(key(i), "a", false, false) // before the start: it waits
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- r.Start(ctx) }()
		for range 2 {
			receive(t, began, "as many as there are workers")
		}
		r.submit(key(0), "a", false, false) // it runs already
		r.submit(key(0), "b", false, false) // the instance is busy
		if running, waiting := r.load(); running != 2 || waiting != 2 {
			t.Errorf("%d run and %d wait, want 2 and 2", running, waiting)
		}
		// Cancellations and short ones need no worker.
		r.submit(key(3), "a", false, true)
		r.submit(key(4), "a", true, false)
		for range 2 {
			receive(t, began, "those that need no worker")
		}
		if got := receive(t, ended, "the canceled one to end"); got != "3" {
			t.Errorf("%s ended, want 3", got)
		}
		r.submit(key(3), "a", false, false) // a cache that is behind
		r.drop(key(2))                      // it waits, and never begins
		r.drop(key(1))                      // it runs, and ends
		receive(t, ended, "the dropped one to end")
		r.submit(key(5), "a", false, false)
		if got := receive(t, began, "the worker of the dropped one to be taken"); got != "5a" {
			t.Errorf("%s began, want 5a", got)
		}
		cancel()
		if err := receive(t, stopped, "the runner to stop"); err != nil {
			t.Error(err)
		}
		r.submit(key(6), "a", true, false)
		if running, _ := r.load(); running != 0 || len(began) > 0 {
			t.Errorf("%d run after the end", running)
		}
	})
}

// TestRunnerYields: an execution that only waits gives its worker to another one, once.
func TestRunnerYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(1, clock.RealClock{})
		started, yielded := make(chan string), make(chan struct{})
		yields := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
		r.execute = func(_ context.Context, key types.NamespacedName, _ string, _ <-chan struct{}, yield func()) time.Duration {
			started <- key.Name
			for range yields[key.Name] {
				yield()
				yielded <- struct{}{}
			}
			<-release[key.Name]
			return 0
		}
		r.notify = func(context.Context, types.NamespacedName) {}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Start(ctx) })
		for _, name := range []string{"a", "b", "c"} {
			r.submit(types.NamespacedName{Name: name}, name, false, false)
		}
		if got := <-started; got != "a" {
			t.Errorf("%s has begun", got)
		}
		yields["a"] <- struct{}{}
		<-yielded
		if got := <-started; got != "b" {
			t.Errorf("%s has begun", got)
		}
		yields["a"] <- struct{}{} // it has none to give any more
		<-yielded
		close(yields["a"])
		close(release["a"])
		if _, waiting := r.load(); waiting != 1 {
			t.Errorf("waiting: %d", waiting)
		}
		close(yields["b"])
		close(release["b"])
		if got := <-started; got != "c" {
			t.Errorf("%s has begun", got)
		}
		close(yields["c"])
		close(release["c"])
		cancel()
		wg.Wait()
	})
}
