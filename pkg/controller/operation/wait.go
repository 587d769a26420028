// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// What waits here does so with the clock of the operation and the cause of its context,
// which the loops of apimachinery and client-go do not know. Their [wait.Backoff] says how long.

const (
	// pollInterval is how often a host is asked whether what is waited for has happened.
	pollInterval = 3 * time.Second
	// askTimeout bounds one question to a host: one that is going down may take it and
	// never answer.
	askTimeout = 45 * time.Second
	// fullAttempt is the least that is left of a time-out for an execution that could not work
	// for a while, as the process or the API server was away: what was waited for may have
	// happened long ago.
	fullAttempt = 2 * time.Minute
	// outage is what takes longer than any answer of an API server that is there.
	outage = 30 * time.Second
	// patience is for how long a host that cannot be reached is tried before anything was
	// done to it.
	patience = time.Minute
	// unreadPatience is for how long the credentials for a host may be unread, in all, before that is taken for a failure. A leader outlives an API
	// server that is away for less.
	unreadPatience = 5 * time.Minute
)

var (
	// apiBackoff is between a request that the API server did not take and the next one.
	apiBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 10 * time.Second}
	// pollBackoff has a host asked sooner in the beginning than every pollInterval.
	pollBackoff = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Steps: math.MaxInt32, Cap: pollInterval}
)

// rerunBackoff is between executions of an operation whose record cannot be written.
var rerunBackoff = wait.Backoff{Duration: 5 * time.Second, Factor: 2, Steps: math.MaxInt32, Cap: 5 * time.Minute}

// sleepUnless lets time go by until ctx ends or the channel is closed, and says whether it was.
func sleepUnless(ctx context.Context, c clock.Clock, d time.Duration, closed <-chan struct{}) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	case <-closed:
		return true
	}
	return false
}

// span is a time from one moment to another.
type span struct{ from, until time.Time }

// after is how much of it is after a moment.
func (s span) after(t time.Time) time.Duration {
	if s.from.After(t) {
		t = s.from
	}
	return max(s.until.Sub(t), 0)
}

// lose notes a time for the deadlines.
func (e *execution) lose(from, until time.Time) {
	s := span{from, until}
	e.lost = slices.DeleteFunc(e.lost, func(known span) bool {
		if known.until.Before(s.from) || s.until.Before(known.from) {
			return false
		}
		if known.from.Before(s.from) {
			s.from = known.from
		}
		if known.until.After(s.until) {
			s.until = known.until
		}
		return true
	})
	e.lost = append(e.lost, s)
}

// deadline is when what began at a time must be over. An execution that took over has time for
// one attempt in any case, and no more if the clock of the one before it, which began the step, ran ahead.
// The time in which the record could not be read or written does not count: a step that must be recorded before anything is done has not
// begun before it is, though its record says an earlier time.
func (e *execution) deadline(began time.Time, timeout time.Duration) time.Time {
	if began.After(e.resumed) && slices.ContainsFunc(e.found, func(s v1alpha1.OperationStep) bool { return s.StartedAt != nil && s.StartedAt.Time.Equal(began) }) {
		began = e.resumed
	}
	until := began.Add(timeout)
	for _, s := range e.lost {
		until = until.Add(s.after(began))
	}
	if least := e.resumed.Add(min(timeout, fullAttempt)); !e.resumed.IsZero() && until.Before(least) {
		return least
	}
	return until
}

// sleep lets time go by. It fails with the cause of ctx when that ends before.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryAPI calls f until it succeeds, or fails with an error that is final, or ctx ends. That a right is missing, which an API server
// also says while it starts, is not final before it was said for [forbidden.Patience] without another answer in between.
func retryAPI(ctx context.Context, c clock.Clock, doing string, final func(error) bool, f func() error) error {
	var refusals forbidden.Refusals
	for delay := apiBackoff.DelayFunc(); ; {
		began := c.Now()
		err := f()
		now := c.Now()
		if now.Sub(began) >= forbidden.Patience { // it is a drain, which has got other answers meanwhile
			refusals = forbidden.Refusals{}
		}
		passes := refusals.Passes(err, now)
		if _, says := errors.AsType[finalError](err); err == nil || says || final(err) && !passes {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		log.FromContext(ctx).Info(doing+" failed and is tried again", "cause", err.Error())
		if err := sleep(ctx, c, delay()); err != nil {
			return err
		}
	}
}

// ask puts a question to the host until it is answered, or the error is not transient, or
// the time is over; the zero time is over at once. Time in which nobody could log in because the credentials could not be read does not count. The error is that of the host, or the
// cause of ctx, also if an answer comes after its end. timeout bounds each answer.
func ask[T any](ctx context.Context, c clock.Clock, until time.Time, timeout time.Duration, question func(ctx context.Context) (T, error)) (T, error) {
	away := unread{clock: c}
	for {
		began := c.Now()
		answer, err := askOnce(ctx, timeout, question)
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		waits := away.waits(err, began)
		if !waits && (err == nil || !diagnose.IsTransient(err) || !c.Now().Add(pollInterval).Before(until)) {
			return answer, err
		}
		if err := sleep(ctx, c, pollInterval); err != nil {
			return answer, err
		}
		if waits {
			until = away.extend(until, began)
		}
	}
}

// askOnce puts a question to the host once. The error is as that of ask.
func askOnce[T any](ctx context.Context, timeout time.Duration, question func(ctx context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := question(bounded)
	if ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	return answer, err
}

// unread is for how long the credentials for a host could not be read, because the API server did not answer, or with an error that passes. That says
// nothing about the host, and is no reason to give up what was begun.
type unread struct {
	clock clock.PassiveClock
	// lasted is how long that was, as far as it was waited for.
	lasted time.Duration
}

// waits says whether an attempt that began at a time is to be made again, whatever time there is for it, because its error, which may be nil, says
// that the credentials could not be read, and it was not waited too long for that already.
func (u *unread) waits(err error, began time.Time) bool {
	return diagnose.IsUnread(err) && u.lasted+u.clock.Since(began) < unreadPatience
}

// extend counts the time since an attempt began that waits, and has until, unless it is zero, be that much later.
func (u *unread) extend(until, began time.Time) time.Time {
	lost := u.clock.Since(began)
	u.lasted += lost
	if until.IsZero() {
		return until
	}
	return until.Add(lost)
}

// workerPatience is for how long an operation keeps its worker that nothing else bounds: nobody admits what a person asks for, nor
// what costs nothing.
const workerPatience = 5 * time.Minute

// yieldLater has an operation that lasts go on without its worker from workerPatience on. The function that it returns ends that.
func (e *execution) yieldLater(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if sleep(ctx, e.clock, workerPatience) == nil {
			e.yield()
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// boundedElsewhere says whether something else than workers bounds how many such hosts are out of service: it has a slot, or it was no Node before.
func (e *execution) boundedElsewhere() bool {
	op := e.operation()
	ours := op.ByController() && (op.Type == v1alpha1.OperationReboot || op.Type == v1alpha1.OperationRestartServices) // by package rollout
	if ours || op.AdmittedImpact != "" && op.AdmittedImpact != v1alpha1.ImpactNone {
		return true
	}
	join := op.FindStep(v1alpha1.StepJoin)
	return op.Type == v1alpha1.OperationReconfigure && (e.joins() || join != nil && join.State == v1alpha1.StepSucceeded)
}

// waitUntil asks again and again until done says that what is waited for has happened. done returns
// what is lacking, in words that are shown meanwhile, and are the error at the deadline. What takes long is waited for without a worker: hosts that do not come back from a restart, or whose
// kubelet does not, would keep others waiting for an hour.
func (e *execution) waitUntil(ctx context.Context, deadline time.Time, waiting string, done func(ctx context.Context) (lacks string, err error)) error {
	began := e.clock.Now()
	looked, forgiven := began, time.Duration(0)
	for delay := pollBackoff.DelayFunc(); ; {
		lacks, err := done(ctx)
		if err != nil || lacks == "" {
			return err
		}
		// The API server, or this process, was away. A host that takes long to answer at each look must not be waited for without end.
		switch now := e.clock.Now(); {
		case now.Sub(looked) >= fullAttempt:
			if least := now.Add(fullAttempt); deadline.Before(least) {
				deadline = least
			}
		case now.Sub(looked) >= outage && forgiven < fullAttempt:
			away := min(now.Sub(looked), fullAttempt-forgiven)
			deadline, forgiven = deadline.Add(away), forgiven+away
			e.lose(now.Add(-away), now) // for the steps that come then
		}
		looked = e.clock.Now()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.current != v1alpha1.StepPlan && (e.boundedElsewhere() || e.clock.Now().Sub(began) >= workerPatience) {
			e.yield() // not before the files that it is sent: bounds of these count workers
		}
		if !e.clock.Now().Before(deadline) {
			return errors.New(lacks)
		}
		if text := waiting + " " + message.Sentence(lacks); text != e.operation().Message { // what is over soon is written with what comes next
			e.note(func(status *v1alpha1.WindowsInstanceStatus) { status.Operation.Message = text })
			e.recordLate(ctx)
		}
		if err := sleep(ctx, e.clock, delay()); err != nil {
			return err
		}
	}
}

// pause records what is waited for and lets pollInterval go by.
func (e *execution) pause(ctx context.Context, format string, args ...any) error {
	if err := e.recordMessage(ctx, format, args...); err != nil {
		return err
	}
	return sleep(ctx, e.clock, pollInterval)
}
