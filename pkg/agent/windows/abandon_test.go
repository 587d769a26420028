// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWithinSlow: what was abandoned soon may still end, and the next call waits for that.
func TestWithinSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answerer{name: "Host Networking Service (hns)", limit: 3 * time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		slow := func() (int, error) {
			time.Sleep(6 * time.Second) //nolint:forbidigo // the time of the bubble
			return 1, nil
		}
		if _, err := within(ctx, a, slow); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("within 5 seconds: %v", err)
		}
		if n, err := within(t.Context(), a, slow); n != 1 || err != nil {
			t.Errorf("the next one: %d, %v", n, err)
		}
	})
}

// TestWithin: a call that hangs is given up after a time or with its context, no other is made while it does, and the service is used again when
// it has come to its end.
func TestWithin(t *testing.T) {
	refused := errors.New("refused")
	const says = "the Host Networking Service (hns) has not answered for 3m0s: restart that service, or the host"
	for _, tt := range []struct {
		name string
		// canceled is after how long the context ends. Zero: it does not.
		canceled time.Duration
		took     time.Duration
		want     string
	}{
		{name: "the limit", took: 3 * time.Minute, want: says},
		{name: "the context", canceled: time.Minute, took: time.Minute, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answerer{name: "Host Networking Service (hns)", limit: 3 * time.Minute}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.canceled != 0 {
					time.AfterFunc(tt.canceled, cancel)
				}
				hangs := make(chan struct{})
				var calls atomic.Int32
				began := time.Now()
				_, err := within(ctx, a, func() (int, error) { calls.Add(1); <-hangs; return 1, nil })
				if err == nil || err.Error() != tt.want || time.Since(began) != tt.took {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				if tt.canceled != 0 {
					// It may be slow only, and is waited for until the limit.
					began := time.Now()
					_, err := within(t.Context(), a, func() (int, error) { calls.Add(1); return 2, nil })
					if err == nil || err.Error() != says || time.Since(began) != 2*time.Minute {
						t.Errorf("soon after, after %s: %v", time.Since(began), err)
					}
				}
				time.Sleep(time.Hour) //nolint:forbidigo // the time of the bubble
				if _, err := within(t.Context(), a, func() (int, error) { calls.Add(1); return 2, nil }); err == nil || calls.Load() != 1 || !strings.Contains(err.Error(), "has not answered for 1h") {
					t.Errorf("while it hangs, with %d calls: %v", calls.Load(), err)
				}
				close(hangs)
				synctest.Wait()
				if n, err := within(t.Context(), a, func() (int, error) { return 3, nil }); n != 3 || err != nil {
					t.Errorf("when it has ended: %d, %v", n, err)
				}
				if _, err := within(t.Context(), a, func() (int, error) { return 0, refused }); !errors.Is(err, refused) {
					t.Errorf("what it says: %v", err)
				}
			})
		})
	}
}
