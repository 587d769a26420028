// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
			err := follow(t.Context(), clock.RealClock{}, &pace{}, firstAtOnce, tt.run, func(n int, _ bool) error {
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

// TestFollowAtAPace: what only tells people how far operations are is ten writes a second, however many run, but what they see is not older than
// five seconds. The last one is always written, and the first one at once where it has to be known, else when it takes as long as what is noted.
func TestFollowAtAPace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		others int64
		begin  firstReport
		want   []int
	}{
		{0, firstAtOnce, []int{1, 11, 21, 31, 41, 51, 61, 71, 80}},
		{24, firstAtOnce, []int{1, 26, 51, 76, 80}},
		{1000, firstAtOnce, []int{1, 51, 80}},
		{0, firstInTurn, []int{21, 31, 41, 51, 61, 71, 80}},
		{1000, firstInTurn, []int{51, 80}},
	} {
		inBubble(t, fmt.Sprintf("%d others, the first one at once: %t", tt.others, tt.begin), func(t *testing.T) {
			var p pace
			p.telling.Add(tt.others)
			var written []int
			last := tt.want[len(tt.want)-1]
			err := follow(t.Context(), clock.RealClock{}, &p, tt.begin, func(_ context.Context, report func(int)) error {
				for i := range last {
					if i > 0 {
						<-time.After(99 * time.Millisecond)
					}
					report(i + 1)
					synctest.Wait()
				}
				return nil
			}, func(n int, over bool) error {
				written = append(written, n)
				if over != (n == last) {
					t.Errorf("%d is the last one: %t", n, over)
				}
				return nil
			})
			if err != nil || !slices.Equal(written, tt.want) {
				t.Errorf("got %v, and these were written: %v; want %v", err, written, tt.want)
			}
			if left := p.telling.Load(); left != tt.others {
				t.Errorf("%d go on telling, want %d", left, tt.others)
			}
		})
	}
}

// TestNoteInterval: with many operations each step takes longer, and is not worth a write for that.
func TestNoteInterval(t *testing.T) {
	t.Parallel()
	for running, want := range map[int64]time.Duration{1: noteInterval, 20: noteInterval, 30: 3 * time.Second, 1000: maxNoteInterval} {
		var p pace
		p.running.Add(running)
		if got := p.noteInterval(); got != want {
			t.Errorf("with %d operations it is %s, want %s", running, got, want)
		}
	}
}
