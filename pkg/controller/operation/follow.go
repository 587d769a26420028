// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// progressInterval is how often at most the progress of something is written.
const progressInterval = time.Second

// follow runs something in a goroutine of its own and writes how far it is, at most once
// in progressInterval and the last report always. Reports that nobody had the time to
// write are dropped for newer ones. When one cannot be written, what runs is ended by
// its context, and the error is that of the write. follow returns when all has ended.
func follow[T any](ctx context.Context, c clock.Clock, run func(ctx context.Context, report func(T)) error, write func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	reports := &newest[T]{arrived: make(chan struct{}, 1)}
	done := make(chan error, 1)
	wg.Go(func() { done <- run(ctx, reports.put) })
	flush := func() error {
		if report, ok := reports.take(); ok {
			return write(report)
		}
		return nil
	}
	end := func(err error) error {
		if writeErr := flush(); writeErr != nil {
			return writeErr
		}
		return err
	}
	for {
		select {
		case <-reports.arrived:
		case err := <-done:
			return end(err)
		}
		if err := flush(); err != nil {
			return err
		}
		pause := c.NewTimer(progressInterval)
		select {
		case <-pause.C():
		case err := <-done:
			pause.Stop()
			return end(err)
		}
	}
}

// newest keeps the newest of the values that were put and not taken yet.
type newest[T any] struct {
	mu    sync.Mutex
	value T
	full  bool
	// arrived has room for one: there is a value.
	arrived chan struct{}
}

func (n *newest[T]) put(value T) {
	n.mu.Lock()
	n.value, n.full = value, true
	n.mu.Unlock()
	select {
	case n.arrived <- struct{}{}:
	default:
	}
}

func (n *newest[T]) take() (value T, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ok, n.full = n.full, false
	return n.value, ok
}
