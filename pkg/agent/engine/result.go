// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Error is a failure with a reason for programs.
type Error struct {
	Reason api.FailureReason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// missingPayload returns the error that files of the payload have to be sent first.
func missingPayload(files ...api.PayloadFile) error {
	message := "not on the host yet:"
	for _, f := range files {
		message += " " + f.Name
	}
	return &Error{api.ReasonPayload, errors.New(message)}
}

// inventoryError returns the error that the inventory cannot be read. Without it the engine
// cannot know what is ours, so it does nothing.
func inventoryError(format string, values ...any) error {
	return &Error{api.ReasonInventory, fmt.Errorf("the inventory of the host cannot be read: "+format, values...)}
}

// failed records a failure in r and returns r.
func failed(r *api.Result, err error) *api.Result {
	r.Outcome, r.Error, r.Reason = api.OutcomeFailed, err.Error(), api.ReasonStep
	if known := (*Error)(nil); errors.As(err, &known) {
		r.Reason = known.Reason
	}
	if locked := (*LockedError)(nil); errors.As(err, &locked) {
		r.Reason = api.ReasonLocked
	}
	return r
}

// Deadlines bound what the engine waits for. A zero value is replaced by the default.
type Deadlines struct {
	// Start of a service until it runs. Default: 2 minutes.
	Start time.Duration
	// Stop of a service until it is terminated. Default: 1 minute.
	Stop time.Duration
	// Kill of a service until it is gone. Default: 15 seconds.
	Kill time.Duration
	// Value of a variable that a service makes. Default: 5 minutes.
	Value time.Duration
	// Poll is the time between two inspections while waiting. Default: 500 milliseconds.
	Poll time.Duration
}

func (d Deadlines) withDefaults() Deadlines {
	d.Start = cmp.Or(d.Start, 2*time.Minute)
	d.Stop = cmp.Or(d.Stop, time.Minute)
	d.Kill = cmp.Or(d.Kill, 15*time.Second)
	d.Value = cmp.Or(d.Value, 5*time.Minute)
	d.Poll = cmp.Or(d.Poll, 500*time.Millisecond)
	return d
}
