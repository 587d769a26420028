// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// activity is what is sent in a session or a port forward, and ends it when that is nothing for
// too long.
type activity struct {
	config  Config
	started time.Time

	received, sent atomic.Int64
	// last is when something was sent last, as the time since started.
	last atomic.Int64
}

func (a *activity) touch() { a.last.Store(int64(time.Since(a.started))) }

// wait returns when something ends the session: its own end, that of the connection of the
// client, or what all sessions have in common.
func (a *activity) wait(ctx context.Context, ended <-chan Result, client *channels) Result {
	idle := time.NewTimer(a.config.IdleTimeout)
	defer idle.Stop()
	for {
		select {
		case result := <-ended:
			return result
		case err := <-client.failed:
			return Result{End: EndFailed, Err: err}
		case <-client.over:
			return Result{End: EndClientGone}
		case <-a.config.Drain:
			return Result{End: EndDrained}
		case err := <-a.config.Revoked:
			if apierrors.IsServiceUnavailable(err) {
				return Result{End: EndUnavailable, Err: err}
			}
			return Result{End: EndRevoked, Err: err}
		case <-ctx.Done():
			return Result{End: EndCanceled, Err: context.Cause(ctx)}
		case <-idle.C:
			left := a.config.IdleTimeout - (time.Since(a.started) - time.Duration(a.last.Load()))
			if left <= 0 {
				return Result{End: EndIdle}
			}
			idle.Reset(left)
		}
	}
}
