// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// answerer is a service of Windows whose calls cannot be ended, and hang when it does. It is safe for concurrent use.
type answerer struct {
	// name is that of the service, for people and for "sc".
	name string
	// limit is how long a call may take.
	limit time.Duration

	mu sync.Mutex
	// abandoned is how many calls hang that nobody waits for any more, since when the first of them does, and what is closed when
	// all of them have ended.
	abandoned int
	since     time.Time
	ended     chan struct{}
}

// within makes a call of a service, and abandons it when it takes too long or the context ends: its goroutine ends with the call, or
// with the process. As long as one hangs no other is made, so that a service that hangs for days costs one goroutine and not one
// for each try: a service that is only slow is waited for, within the same limit.
func within[T any](ctx context.Context, a *answerer, call func() (T, error)) (out T, err error) {
	if err := a.waitForAbandoned(ctx); err != nil {
		return out, err
	}
	type answer struct {
		out T
		err error
	}
	answers := make(chan answer) // without room: an answer is either taken or counted as late
	left := make(chan struct{})
	began := time.Now()
	go func() {
		var made answer
		made.out, made.err = call()
		select {
		case answers <- made:
		case <-left:
			a.mu.Lock()
			if a.abandoned--; a.abandoned == 0 {
				close(a.ended)
			}
			a.mu.Unlock()
		}
	}()
	limit := time.NewTimer(a.limit)
	defer limit.Stop()
	select {
	case made := <-answers:
		return made.out, made.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = a.silent(a.limit)
	}
	a.mu.Lock()
	if a.abandoned == 0 {
		a.since, a.ended = began, make(chan struct{})
	}
	a.abandoned++
	a.mu.Unlock()
	close(left)
	return out, err
}

// waitForAbandoned waits until no call hangs that was abandoned, or one does for too long.
func (a *answerer) waitForAbandoned(ctx context.Context) error {
	a.mu.Lock()
	abandoned, since, ended := a.abandoned, a.since, a.ended
	a.mu.Unlock()
	if abandoned == 0 {
		return nil
	}
	left := a.limit - time.Since(since)
	if left <= 0 {
		return a.silent(time.Since(since))
	}
	limit := time.NewTimer(left)
	defer limit.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return a.silent(a.limit)
	}
}

func (a *answerer) silent(d time.Duration) error {
	return fmt.Errorf("the %s has not answered for %s: restart that service, or the host", a.name, d.Round(time.Second))
}
