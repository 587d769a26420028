// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is how long is waited for what may take long.
type patience struct {
	// silence is how long a change, or a transfer, may report nothing new. The longest that a step of the
	// engine waits without a word is 9 minutes: for a value, then for a service to start and to be healthy. An
	// agent that nobody follows ends by itself a minute later.
	silence time.Duration
	// change is how long all of a change may take. A dozen services that need all of their
	// time to stop and to start are well within it. An agent that still reports something then is left
	// alone: whoever comes next waits for its lock.
	change time.Duration
	// end is how long the agent gets to end after it has said its last word.
	end time.Duration
	// removal is how long files that are in use are tried again to be removed.
	removal time.Duration
	// header is how long the agent gets to find a requested log.
	header time.Duration
	// failure is how long a program that did not answer as the agent gets to say why.
	failure time.Duration
}

var defaultPatience = patience{
	silence: 10 * time.Minute, change: 2 * time.Hour, end: 10 * time.Second, removal: 15 * time.Second, header: 30 * time.Second, failure: 2 * time.Second,
}

// silenceError means that a host reported nothing new for too long, or did not end.
type silenceError struct{ message string }

// Error implements error.
func (e *silenceError) Error() string { return e.message }

// Unwrap says that this is a deadline that passed.
func (e *silenceError) Unwrap() error { return context.DeadlineExceeded }

// lengthError means that a host still reports something after all of the time that a change may take.
type lengthError struct{ whole time.Duration }

// Error implements error.
func (e *lengthError) Error() string { return fmt.Sprintf("it did not end within %s", e.whole) }

// Unwrap says that this is a deadline that passed.
func (e *lengthError) Unwrap() error { return context.DeadlineExceeded }

// watch ends a context when nothing happens for too long.
type watch struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	// quiet fires after the silence, whole at the end of all patience. Nil: there is none.
	quiet, whole *time.Timer
}

// newWatch returns a context that ends with ctx, after a time of silence, or after a time
// in all; zero: the latter never. end must be called.
func newWatch(ctx context.Context, silence, whole time.Duration) (context.Context, *watch) {
	w := &watch{silence: silence}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.quiet = time.AfterFunc(silence, func() {
		w.cancel(&silenceError{fmt.Sprintf("it reported nothing new for %s", silence)})
	})
	if whole > 0 {
		w.whole = time.AfterFunc(whole, func() {
			w.cancel(&lengthError{whole})
		})
	}
	return w.ctx, w
}

// pause keeps time from passing until something is heard.
func (w *watch) pause() { w.quiet.Stop() }

// heard says that something new happened.
func (w *watch) heard() { w.quiet.Reset(w.silence) }

// end ends the context.
func (w *watch) end() {
	w.quiet.Stop()
	if w.whole != nil {
		w.whole.Stop()
	}
	w.cancel(context.Canceled)
}

// hangs says whether a context ended because nothing had happened for too long. What only takes long does not hang.
func hangs(cause error) bool {
	_, silent := errors.AsType[*silenceError](cause)
	return silent
}

// explain returns why the context was ended, if it was by the watch, and else err.
func (w *watch) explain(err error) error {
	cause := context.Cause(w.ctx)
	if _, long := errors.AsType[*lengthError](cause); long || hangs(cause) {
		return &Error{Step: StepRun, Err: cause}
	}
	return err
}
