// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestPace: a controller of thousands of hosts has time for other things than deciding, however often they change; in a small
// fleet nobody waits.
func TestPace(t *testing.T) {
	for name, tt := range map[string]struct {
		took, since, want time.Duration
	}{
		"of a few hosts":                {time.Millisecond, 0, 10 * time.Millisecond},
		"of thousands of hosts":         {200 * time.Millisecond, 0, 2 * time.Second},
		"half of the rest is over":      {200 * time.Millisecond, time.Second, time.Second},
		"the rest is over":              {200 * time.Millisecond, 3 * time.Second, 0},
		"of a machine that hangs":       {time.Minute, 0, maxRest},
		"the clock was put back by now": {200 * time.Millisecond, -time.Hour, maxRest},
		"it was put back in the pass":   {-time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			if got := p.rest(testNow); got != 0 {
				t.Errorf("before the first pass there is a rest of %v", got)
			}
			p.took(testNow, testNow.Add(tt.took))
			if got := p.rest(testNow.Add(tt.took + tt.since)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// added is a queue that only notes what is added, and when.
type added struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests []reconcile.Request
	after    []time.Duration
}

// AddAfter implements the queue.
func (a *added) AddAfter(request reconcile.Request, after time.Duration) {
	a.requests, a.after = append(a.requests, request), append(a.after, after)
}

// TestPacedPasses: whatever changes asks for the one pass, when the rest is over; the queue has one of a request.
func TestPacedPasses(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(testNow)
	var p pace
	p.took(testNow.Add(-100*time.Millisecond), testNow)
	handler, queue := p.paced(clock), &added{}
	handler.Create(t.Context(), event.CreateEvent{}, queue)
	handler.Update(t.Context(), event.UpdateEvent{}, queue)
	clock.SetTime(testNow.Add(time.Minute))
	handler.Delete(t.Context(), event.DeleteEvent{}, queue)
	handler.Generic(t.Context(), event.GenericEvent{}, queue)
	if want := []reconcile.Request{everything, everything, everything, everything}; !slices.Equal(queue.requests, want) {
		t.Errorf("got the requests %v", queue.requests)
	}
	if want := []time.Duration{time.Second, time.Second, 0, 0}; !slices.Equal(queue.after, want) {
		t.Errorf("they are made after %v, want %v", queue.after, want)
	}
}

// TestPassesRest: a pass that something asked for in the middle of the one before, when the length of that was not known, rests
// like all others.
func TestPassesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScheduled(t, nil)
		now := f.clock.Now()
		f.pace.took(now.Add(-100*time.Millisecond), now)
		if result := f.pass(); result.RequeueAfter != time.Second || !f.passed.IsZero() {
			t.Errorf("got %+v, and the pass was at %v", result, f.passed)
		}
		<-time.After(time.Second)
		if result := f.pass(); result.RequeueAfter != 0 || f.passed.IsZero() {
			t.Errorf("got %+v, and the pass was at %v", result, f.passed)
		}
	})
}
