// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"errors"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// PayloadError says which files of the payload have to be sent first.
type PayloadError struct{ Files []api.PayloadFile }

func (e *PayloadError) Error() string {
	message := "not on the host yet:"
	for _, f := range e.Files {
		message += " " + f.Name
	}
	return message
}

// failed makes r that of a failure.
func failed(r *api.Result, err error) *api.Result {
	r.Outcome, r.Error, r.Reason = api.OutcomeFailed, err.Error(), api.ReasonStep
	var locked *LockedError
	var conflict *ConflictError
	var payload *PayloadError
	var space *SpaceError
	switch {
	case errors.As(err, &locked):
		r.Reason = api.ReasonLocked
	case errors.As(err, &conflict):
		r.Reason = api.ReasonConflict
	case errors.As(err, &payload):
		r.Reason = api.ReasonPayload
	case errors.As(err, &space):
		r.Reason = api.ReasonSpace
	case errors.Is(err, ErrInventory):
		r.Reason = api.ReasonInventory
	}
	return r
}

// Deadlines are how long things may take. A zero value is replaced by the default.
type Deadlines struct {
	// Start of a service until it runs. Default: 2 minutes.
	Start time.Duration
	// Stop of a service until it is terminated. Default: 1 minute.
	Stop time.Duration
	// Kill of a service until it is gone. Default: 15 seconds.
	Kill time.Duration
	// Value of a variable that a service makes. Default: 5 minutes.
	Value time.Duration
	// Poll is the time between two looks. Default: 500 milliseconds.
	Poll time.Duration
}

func (d Deadlines) withDefaults() Deadlines {
	for _, v := range []struct {
		set *time.Duration
		to  time.Duration
	}{{&d.Start, 2 * time.Minute}, {&d.Stop, time.Minute}, {&d.Kill, 15 * time.Second}, {&d.Value, 5 * time.Minute}, {&d.Poll, 500 * time.Millisecond}} {
		if *v.set == 0 {
			*v.set = v.to
		}
	}
	return d
}
