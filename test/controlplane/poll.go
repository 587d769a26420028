// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errEnded says that what poll waited for cannot come any more.
var errEnded = errors.New("ended")

// poll calls condition until it returns nil, and says why it did not when ctx
// ends first. It returns errEnded when ended is closed, which also cuts a running
// condition short; nil is never closed.
func poll(ctx context.Context, ended <-chan struct{}, condition func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel(nil)
		<-watched
	}()

	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		// An attempt that was cut short by the end of ctx says less than the one
		// before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
