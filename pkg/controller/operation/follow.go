// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// progressInterval is how often at most the progress of something is written.
const progressInterval = time.Second

// follow runs something in a goroutine of its own and writes how far it is, at most once
// in progressInterval and the last report always. Reports that were not written yet are
// dropped for newer ones. When one cannot be written, the context of run is canceled, and the
// error is that of the write. follow returns when run has.
func follow[T any](ctx context.Context, c clock.Clock, run func(ctx context.Context, report func(T)) error, write func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var newest atomic.Pointer[T] // nil: all reports are written, or dropped
	arrived, done := make(chan struct{}, 1), make(chan struct{})
	var runErr error
	wg.Go(func() {
		defer close(done)
		runErr = run(ctx, func(report T) {
			newest.Store(&report)
			select {
			case arrived <- struct{}{}:
			default:
			}
		})
	})
	for {
		ended := false
		select {
		case <-arrived:
		case <-done:
			ended = true
		}
		if report := newest.Swap(nil); report != nil {
			if err := write(*report); err != nil {
				return err
			}
		}
		if ended {
			return runErr
		}
		pause := c.NewTimer(progressInterval)
		select {
		case <-pause.C():
		case <-done:
			pause.Stop()
		}
	}
}
