// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// TestBeforeInstall: nothing is begun while Windows installed something else, which the caller learns before its time is over; and only after that
// it is known whether Windows has to be restarted.
func TestBeforeInstall(t *testing.T) {
	unreadable := errors.New("HRESULT 0x80004005")
	for _, tt := range []struct {
		name     string
		left     time.Duration // of the context
		busy     time.Duration
		busyErr  error
		restart  bool // once Windows is not busy any more
		firstErr error
		want     error
		ends     time.Duration
	}{
		{name: "Windows is idle", left: time.Hour},
		{name: "Windows is busy for a while", left: time.Hour, busy: time.Minute, ends: time.Minute},
		{name: "what it installed needs a restart", left: time.Hour, busy: time.Minute, restart: true, want: updates.ErrRestartFirst, ends: time.Minute},
		{name: "Windows stays busy", left: 3 * time.Hour, busy: 4 * time.Hour, want: updates.ErrNotBegun, ends: busyFor},
		{name: "Windows stays busy until the time is over", left: 5 * time.Minute, busy: time.Hour, want: updates.ErrNotBegun, ends: 4 * time.Minute},
		{name: "there is hardly any time", left: time.Second, busy: time.Hour, want: updates.ErrNotBegun},
		{name: "it does not say whether it is busy", left: time.Hour, busyErr: unreadable, want: updates.ErrNotBegun},
		{name: "it does not say whether it has to be restarted", left: time.Hour, firstErr: unreadable, want: updates.ErrNotBegun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				began := time.Now()
				idle := began.Add(tt.busy)
				installed := false
				err := whenAllowed(ctx,
					func() (bool, error) { return time.Now().Before(idle), tt.busyErr },
					func() (bool, error) { return tt.restart && !time.Now().Before(idle), tt.firstErr },
					func() error { installed = true; return nil },
				)
				if took := time.Since(began); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || installed != (tt.want == nil) || took != tt.ends || ctx.Err() != nil {
					t.Errorf("after %s: %v", took, err)
				}
				if errors.Is(err, updates.ErrBusy) != (tt.busy > tt.ends) {
					t.Errorf("whether Windows was busy is not told: %v", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := whenAllowed(ctx, func() (bool, error) { return true, nil }, func() (bool, error) { return false, nil }, func() error { return nil })
		if !errors.Is(err, updates.ErrNotBegun) || !errors.Is(err, context.Canceled) {
			t.Errorf("when it is canceled: %v", err)
		}
	})
}

// TestRefusedInstall: Windows that is not busy may refuse an installation because it installs something else. It is asked again for a while.
func TestRefusedInstall(t *testing.T) {
	other := errors.New("HRESULT 0x80240020")
	for _, tt := range []struct {
		name    string
		left    time.Duration // of the context
		refuses time.Duration
		busy    bool  // after it has refused
		restart bool  // the same
		then    error // when it does not refuse any more
		want    error
		ends    time.Duration
	}{
		{name: "for a while", left: time.Hour, refuses: time.Minute, ends: time.Minute},
		{name: "for a while, and it fails then", left: time.Hour, refuses: time.Minute, then: other, want: other, ends: time.Minute},
		{name: "for long", left: 3 * time.Hour, refuses: 4 * time.Hour, want: updates.ErrBusy, ends: busyFor},
		{name: "until the time is over", left: 5 * time.Minute, refuses: time.Hour, want: updates.ErrBusy, ends: 4 * time.Minute},
		{name: "it is busy after that", left: 3 * time.Hour, refuses: time.Second, busy: true, want: updates.ErrBusy, ends: busyFor},
		{name: "it has to be restarted after that", left: time.Hour, refuses: time.Second, restart: true, want: updates.ErrRestartFirst, ends: refusedEvery},
		{name: "it is not begun for another reason", left: 3 * time.Hour, then: fmt.Errorf("%w: %w", updates.ErrNotBegun, other), want: updates.ErrNotBegun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.left)
				defer cancel()
				began, calls := time.Now(), 0
				err := whenAllowed(ctx,
					func() (bool, error) { return tt.busy && calls > 0, nil },
					func() (bool, error) { return tt.restart && calls > 0, nil },
					func() error {
						if calls++; time.Since(began) < tt.refuses {
							return callError(hresultError(0x80240016), hresultError.notBegun)
						}
						return tt.then
					},
				)
				if took := time.Since(began); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || took != tt.ends || ctx.Err() != nil {
					t.Errorf("after %s and %d calls: %v", took, calls, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		no := func() (bool, error) { return false, nil }
		err := whenAllowed(ctx, no, no, func() error { return callError(hresultError(0x80240009), hresultError.notBegun) })
		if !errors.Is(err, updates.ErrNotBegun) || !errors.Is(err, context.Canceled) {
			t.Errorf("when it is canceled: %v", err)
		}
	})
}
