// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"
	"testing/synctest"
	"time"
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
		if result := f.pass(); result.RequeueAfter != maxPause/2 || f.passed.IsZero() {
			t.Errorf("got %+v, and the pass was at %v", result, f.passed)
		}
	})
}
