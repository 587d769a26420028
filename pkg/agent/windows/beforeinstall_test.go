// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// TestBeforeInstall: nothing was begun while Windows installed something else, which the caller learns before its time is over; and only after that
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
				err := beforeInstall(ctx,
					func() (bool, error) { return time.Now().Before(idle), tt.busyErr },
					func() (bool, error) { return tt.restart && !time.Now().Before(idle), tt.firstErr },
				)
				if took := time.Since(began); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || took != tt.ends || ctx.Err() != nil {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := beforeInstall(ctx, func() (bool, error) { return true, nil }, func() (bool, error) { return false, nil })
		if !errors.Is(err, updates.ErrNotBegun) || !errors.Is(err, context.Canceled) {
			t.Errorf("when it is canceled: %v", err)
		}
	})
}
