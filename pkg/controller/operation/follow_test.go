// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// TestFollow: reports that come faster than they can be written are dropped for newer
// ones, and the last one is always written.
func TestFollow(t *testing.T) {
	t.Parallel()
	ended := errors.New("it ended")
	tests := []struct {
		name string
		run  func(ctx context.Context, report func(int)) error
		// write fails at this report. 0: never.
		failAt   int
		wantErr  error
		wantLast int
		wantMost int
	}{
		{"nothing to report", func(context.Context, func(int)) error { return nil }, 0, nil, 0, 0},
		{"a failure without a report", func(context.Context, func(int)) error { return ended }, 0, ended, 0, 0},
		{"many reports", func(_ context.Context, report func(int)) error {
			for i := range 10000 {
				report(i + 1)
			}
			return ended
		}, 0, ended, 10000, 100},
		{"the first one cannot be written", func(ctx context.Context, report func(int)) error {
			report(1)
			<-ctx.Done() // it is ended by that
			report(2)
			return ctx.Err()
		}, 1, errOver, 1, 1},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			var written []int
			err := follow(t.Context(), clock.RealClock{}, func() time.Duration { return time.Second }, tt.run, func(n int) error {
				written = append(written, n)
				if n == tt.failAt {
					return errOver
				}
				return nil
			})
			last := 0
			if len(written) > 0 {
				last = written[len(written)-1]
			}
			if !errors.Is(err, tt.wantErr) || last != tt.wantLast || len(written) > tt.wantMost {
				t.Errorf("got %v, and %d reports were written, the last one %d", err, len(written), last)
			}
		})
	}
}

// TestFollowAtAPace: between the first report and the last one there are as many as the interval allows, which may change.
func TestFollowAtAPace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		interval time.Duration
		want     []int
	}{
		{960 * time.Millisecond, []int{1, 10, 20, 29, 30}},
		{1960 * time.Millisecond, []int{1, 20, 30}},
		{time.Minute, []int{1, 30}},
	} {
		inBubble(t, tt.interval.String(), func(t *testing.T) {
			var written []int
			err := follow(t.Context(), clock.RealClock{}, func() time.Duration { return tt.interval }, func(_ context.Context, report func(int)) error {
				for i := range 30 {
					report(i + 1)
					synctest.Wait()
					<-time.After(100 * time.Millisecond)
				}
				return nil
			}, func(n int) error {
				written = append(written, n)
				return nil
			})
			if err != nil || !slices.Equal(written, tt.want) {
				t.Errorf("got %v, and these were written: %v; want %v", err, written, tt.want)
			}
		})
	}
}

// TestManyOperationsTellLess: what only tells people how far operations are is ten writes a second, however many run.
func TestManyOperationsTellLess(t *testing.T) {
	t.Parallel()
	for running, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 10: time.Second, 25: 2500 * time.Millisecond, 80: 8 * time.Second} {
		inBubble(t, strconv.Itoa(running), func(t *testing.T) {
			r := &Reconciler{runner: newRunner(DefaultConcurrent)}
			r.runner.execute = func(ctx context.Context, _ types.NamespacedName, _ string, _ <-chan struct{}, _ func()) { <-ctx.Done() }
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.runner.Start(ctx) }()
			for n := range running {
				r.runner.submit(types.NamespacedName{Name: strconv.Itoa(n)}, "op", false, false)
			}
			synctest.Wait()
			if got := r.progressPace(); got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
