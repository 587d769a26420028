// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"time"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	// pollInterval is how often a host is asked whether what is waited for has happened.
	// In the beginning it is asked sooner: after pollFirst, and from then on after twice as
	// long each time.
	pollInterval = 3 * time.Second
	pollFirst    = 250 * time.Millisecond
	// askTimeout bounds one question to a host: one that is going down may take it and
	// never answer.
	askTimeout = 45 * time.Second
	// patience is for how long a host that cannot be reached is tried before anything was
	// done to it.
	patience = time.Minute
)

// blip says whether an error may be gone in a moment: the host was not reached, or the
// connection broke. What the host, or our own configuration, says clearly is no blip.
func blip(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := ssh.AsError(err)
	if !ok {
		return false
	}
	switch e.Layer {
	case ssh.LayerDNS, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerSession:
		return e.Reason != ssh.ReasonAddressRefused
	}
	return e.Reason == ssh.ReasonConnectionLost || e.Reason == ssh.ReasonConnectionReset || e.Reason == ssh.ReasonTimedOut
}

// unsentFor says whether an error of a request to a host means that the request has
// surely not been carried out: the host was not even logged in to, or it said no.
func unsentFor(err error) bool {
	var agent *host.AgentError
	var credentials *host.CredentialsError
	if e, ok := ssh.AsError(err); ok {
		switch e.Layer {
		case ssh.LayerDNS, ssh.LayerConnect, ssh.LayerHandshake, ssh.LayerHostKey, ssh.LayerAuth:
			return true
		}
		return false
	}
	return errors.As(err, &credentials) || errors.As(err, &agent) && !errors.Is(err, context.DeadlineExceeded)
}

// stages of the steps whose errors are not about looking at the host.
var stages = map[string]diagnose.Stage{
	stepPlan: diagnose.StagePlan, stepTransfer: diagnose.StageTransfer, stepApply: diagnose.StageApply,
	stepFinish: diagnose.StageApply, stepNetwork: diagnose.StageApply, stepCleanup: diagnose.StageCleanup,
}

// diagnose puts an error of [Hosts] into the words of the conditions, with the layer
// that failed.
func (e *execution) diagnose(err error) string {
	stage, ok := stages[e.current]
	if !ok {
		stage = diagnose.StageFacts
	}
	d := diagnose.Diagnose(stage, err, e.instance)
	if d.Condition == windowsv1alpha1.ConditionConfigured || d.Condition == windowsv1alpha1.ConditionRemoved {
		return d.Message // the reason says what failed, and that is known here
	}
	return d.Reason + ": " + d.Message
}

// ask puts a question to the host until it is answered, or the error is no blip, or the
// time is over. The error is that of the host, or the cause of ctx.
func ask[T any](ctx context.Context, e *execution, until time.Time, question func(ctx context.Context) (T, error)) (T, error) {
	return askPatiently(ctx, e, until, askTimeout, question)
}

// askPatiently is ask for a question whose answer takes longer.
func askPatiently[T any](ctx context.Context, e *execution, until time.Time, timeout time.Duration, question func(ctx context.Context) (T, error)) (T, error) {
	for {
		answer, err := within(ctx, timeout, question)
		if err == nil || !blip(err) || !e.clock.Now().Add(pollInterval).Before(until) {
			if ctx.Err() != nil {
				return answer, context.Cause(ctx)
			}
			return answer, err
		}
		if err := sleep(ctx, e.clock, pollInterval); err != nil {
			return answer, err
		}
	}
}

// once puts a question to the host and bounds the time for its answer.
func once[T any](ctx context.Context, question func(ctx context.Context) (T, error)) (T, error) {
	return within(ctx, askTimeout, question)
}

func within[T any](ctx context.Context, timeout time.Duration, question func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return question(ctx)
}

// poll asks again and again until done says that what is waited for has happened. What
// it lacks it says in words, which are shown while it is waited for; at the deadline
// they are the error.
func (e *execution) poll(ctx context.Context, deadline time.Time, waiting string, done func(ctx context.Context) (lacks string, err error)) error {
	for pause := pollFirst; ; pause = min(2*pause, pollInterval) {
		lacks, err := done(ctx)
		if err != nil || lacks == "" {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !e.clock.Now().Before(deadline) {
			return errors.New(lacks)
		}
		if err := e.say(ctx, "%s %s", waiting, message.Sentence(lacks)); err != nil {
			return err
		}
		if err := sleep(ctx, e.clock, pause); err != nil {
			return err
		}
	}
}
