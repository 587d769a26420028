// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"testing"

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
			err := follow(t.Context(), clock.RealClock{}, tt.run, func(n int) error {
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
