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
	// silence is how long a change, or a transfer, may report nothing new. The longest that
	// the engine waits without a word is 5 minutes, for a value that a service makes.
	silence time.Duration
	// change is how long all of a change may take. A dozen services that need all of their
	// time to stop and to start are well within it.
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
			w.cancel(&silenceError{fmt.Sprintf("it did not end within %s", whole)})
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

// hangs says whether a context ended because nothing had happened for too long.
func hangs(cause error) bool {
	_, silent := errors.AsType[*silenceError](cause)
	return silent
}

// explain returns why the context was ended, if it was by the watch, and else err.
func (w *watch) explain(err error) error {
	if silent, ok := errors.AsType[*silenceError](context.Cause(w.ctx)); ok {
		return &Error{Step: StepRun, Err: silent}
	}
	return err
}
