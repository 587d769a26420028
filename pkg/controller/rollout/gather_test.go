// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// TestChangesAreGathered: however often the hosts of a pool change, there is one pass about them in a while, and one about what came last.
func TestChangesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		of := func(pool string) *v1alpha1.WindowsInstance {
			i := &v1alpha1.WindowsInstance{}
			i.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool}
			return i
		}
		took := time.Duration(0)
		h := gathered(watch.PoolOf, func(types.NamespacedName) time.Duration { return took })
		passes := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := q.Len(); got != want {
				t.Errorf("there are %d passes, want %d", got, want)
			}
			for range q.Len() {
				request, _ := q.Get()
				q.Done(request)
			}
		}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		for range 10 {
			h.Create(t.Context(), event.CreateEvent{Object: of("a")}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: of("a"), ObjectNew: of("a")}, q)
			wait(gatherTime / 20)
		}
		passes(0)
		wait(gatherTime)
		passes(1)
		// One that goes to another pool concerns both.
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: of("a"), ObjectNew: of("b")}, q)
		h.Delete(t.Context(), event.DeleteEvent{Object: of("b")}, q)
		h.Generic(t.Context(), event.GenericEvent{Object: &v1alpha1.WindowsInstance{}}, q)
		wait(2 * gatherTime)
		passes(2)
		wait(time.Minute)
		passes(0)
		// A pass over thousands of hosts takes long, and there are fewer of them.
		for last, want := range map[time.Duration]time.Duration{gatherTime / 100: gatherTime, gatherTime / 5: 2 * gatherTime, time.Minute: maxRest} {
			took = last
			h.Create(t.Context(), event.CreateEvent{Object: of("a")}, q)
			wait(want - 1)
			passes(0)
			wait(1)
			passes(1)
		}
	})
}
