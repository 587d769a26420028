// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/workpool"
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
			r.submit(key(i), "a", laneLimited, false) // before the start: it waits
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- r.Start(ctx) }()
		for range 2 {
			receive(t, began, "as many as there are workers")
		}
		r.submit(key(0), "a", laneLimited, false) // it runs already
		r.submit(key(0), "b", laneLimited, false) // the instance is busy
		if running, waiting := r.load(); running != 2 || waiting != 2 {
			t.Errorf("%d run and %d wait, want 2 and 2", running, waiting)
		}
		// Cancellations and short ones need no worker.
		r.submit(key(3), "a", laneLimited, true)
		r.submit(key(4), "a", laneShort, false)
		for range 2 {
			receive(t, began, "those that need no worker")
		}
		if got := receive(t, ended, "the canceled one to end"); got != "3" {
			t.Errorf("%s ended, want 3", got)
		}
		r.submit(key(3), "a", laneLimited, false) // a cache that is behind
		r.drop(key(2))                            // it waits, and never begins
		r.drop(key(1))                            // it runs, and ends
		receive(t, ended, "the dropped one to end")
		r.submit(key(5), "a", laneLimited, false)
		if got := receive(t, began, "the worker of the dropped one to be taken"); got != "5a" {
			t.Errorf("%s began, want 5a", got)
		}
		cancel()
		if err := receive(t, stopped, "the runner to stop"); err != nil {
			t.Error(err)
		}
		r.submit(key(6), "a", laneShort, false)
		if running, _ := r.load(); running != 0 || len(began) > 0 {
			t.Errorf("%d run after the end", running)
		}
	})
}

// TestLanes: what people wait for begins while all workers are busy with what the controller wants, and what may send files to hosts does not, whoever
// has requested it: memory is bounded by the workers of these.
func TestLanes(t *testing.T) {
	t.Parallel()
	byPeople := []v1alpha1.OperationType{v1alpha1.OperationDrain, v1alpha1.OperationReboot, v1alpha1.OperationRestartServices}
	for _, kind := range []v1alpha1.OperationType{
		v1alpha1.OperationDrain, v1alpha1.OperationUncordon, v1alpha1.OperationReboot, v1alpha1.OperationReconfigure, v1alpha1.OperationAdopt,
		v1alpha1.OperationRelease, v1alpha1.OperationRestartServices, v1alpha1.OperationRemove,
	} {
		for _, origin := range []v1alpha1.OperationOrigin{v1alpha1.OriginUser, v1alpha1.OriginController} {
			want := laneLimited
			switch {
			case kind == v1alpha1.OperationUncordon:
				want = laneShort
			case origin == v1alpha1.OriginUser && slices.Contains(byPeople, kind):
				want = laneRequested
			}
			if got := laneOf(&v1alpha1.Operation{Type: kind, Origin: origin}); got != want {
				t.Errorf("%s by %s waits in lane %s, want %s", kind, origin, got, want)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(1, clock.RealClock{})
		began := make(chan string)
		r.execute = func(ctx context.Context, key types.NamespacedName, _ string, _ <-chan struct{}, _ func()) time.Duration {
			began <- key.Name
			<-ctx.Done()
			return 0
		}
		r.notify = func(context.Context, types.NamespacedName) {}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Start(ctx) })
		for _, work := range []struct {
			name string
			lane workpool.Lane
		}{{"update", laneLimited}, {"next update", laneLimited}, {"drain", laneRequested}, {"next drain", laneRequested}} {
			r.submit(types.NamespacedName{Name: work.name}, "op", work.lane, false)
		}
		got := []string{<-began, <-began}
		slices.Sort(got)
		if want := []string{"drain", "update"}; !slices.Equal(got, want) {
			t.Errorf("%q have begun, want %q", got, want)
		}
		synctest.Wait()
		if running, waiting := r.load(); running != 2 || waiting != 2 {
			t.Errorf("%d run and %d wait, want 2 and 2", running, waiting)
		}
		cancel()
		wg.Wait()
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
			r.submit(types.NamespacedName{Name: name}, name, laneLimited, false)
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
