// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// EventState says how far an item is.
type EventState string

// States of items.
const (
	EventStarted EventState = "Started"
	EventDone    EventState = "Done"
	EventFailed  EventState = "Failed"
	// EventNote tells something on the way, as a service that has to be terminated.
	EventNote EventState = "Note"
)

// Event is progress. It has no secrets.
type Event struct {
	Time time.Time `json:"time"`
	// Step counts the items that were begun, from one; Steps is how many there are.
	Step  int `json:"step,omitempty"`
	Steps int `json:"steps,omitempty"`
	// Item is what it is about, for people.
	Item    string     `json:"item"`
	State   EventState `json:"state"`
	Message string     `json:"message,omitempty"`
}

// Outcome is how it ended.
type Outcome string

// Outcomes.
const (
	// OutcomeUnchanged: the host was as desired already.
	OutcomeUnchanged Outcome = "Unchanged"
	// OutcomeApplied: the host is as desired now.
	OutcomeApplied Outcome = "Applied"
	// OutcomeRebootRequired: what comes next needs a restart of the host. After it, the
	// same is applied again.
	OutcomeRebootRequired Outcome = "RebootRequired"
	// OutcomeImpactExceeded: it would cost more than is allowed; nothing was done.
	OutcomeImpactExceeded Outcome = "ImpactExceeded"
	// OutcomeFailed: it did not get to its end. The same can be applied again.
	OutcomeFailed Outcome = "Failed"
	// OutcomeRemoved: nothing of ours is on the host.
	OutcomeRemoved Outcome = "Removed"
)

// FailureReason tells failures apart for programs.
type FailureReason string

// Reasons of failures.
const (
	// ReasonLocked: another process changes the host. Try again.
	ReasonLocked FailureReason = "Locked"
	// ReasonInventory: the inventory cannot be read; a person has to look.
	ReasonInventory FailureReason = "InventoryUnreadable"
	// ReasonConflict: something that is not ours is in the way.
	ReasonConflict FailureReason = "Conflict"
	// ReasonPayload: files of the payload have to be sent first.
	ReasonPayload FailureReason = "PayloadMissing"
	// ReasonSpace: a volume has not the room for what is to be on it.
	ReasonSpace FailureReason = "NoSpace"
	// ReasonStep: a step failed. Trying again may help.
	ReasonStep FailureReason = "StepFailed"
)

// Result is how it ended, and the last thing that is said.
type Result struct {
	// Revision of the document; empty when everything is taken away.
	Revision string  `json:"revision,omitempty"`
	Outcome  Outcome `json:"outcome"`
	// Changed are the items that were done, in that order.
	Changed []Item `json:"changed"`
	// Plan is what would have been done. Set for ImpactExceeded only.
	Plan *Plan `json:"plan,omitempty"`
	// Reboot says what a restart of the host is needed for.
	Reboot []string `json:"reboot,omitempty"`
	// Reason and Error are set for Failed only.
	Reason FailureReason `json:"reason,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// PayloadError says which files of the payload have to be sent first.
type PayloadError struct{ Files []PayloadFile }

func (e *PayloadError) Error() string {
	message := "not on the host yet:"
	for _, f := range e.Files {
		message += " " + f.Name
	}
	return message
}

// fail makes r that of a failure.
func (r *Result) fail(err error) *Result {
	r.Outcome, r.Error, r.Reason = OutcomeFailed, err.Error(), ReasonStep
	var locked *LockedError
	var conflict *ConflictError
	var payload *PayloadError
	var space *SpaceError
	switch {
	case errors.As(err, &locked):
		r.Reason = ReasonLocked
	case errors.As(err, &conflict):
		r.Reason = ReasonConflict
	case errors.As(err, &payload):
		r.Reason = ReasonPayload
	case errors.As(err, &space):
		r.Reason = ReasonSpace
	case errors.Is(err, ErrInventory):
		r.Reason = ReasonInventory
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

// Request asks for a bundle to be carried out. [Request.Encode] and [DecodeRequest] are
// how it travels.
type Request struct {
	// Allow is the greatest impact that may happen now. Whoever allows Drain or Reboot
	// has drained the Node. Empty: None.
	Allow  config.Impact
	Bundle config.Bundle
}

// DecodeRequest reads one request and validates its bundle.
func DecodeRequest(r io.Reader) (*Request, error) {
	text, err := io.ReadAll(io.LimitReader(r, config.MaxBundleBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	var head struct {
		Allow  config.Impact   `json:"allow"`
		Bundle json.RawMessage `json:"bundle"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&head); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	if head.Allow != "" && !slices.Contains(impacts, head.Allow) {
		return nil, fmt.Errorf("impact %q is not known", head.Allow)
	}
	bundle, err := config.Decode(bytes.NewReader(head.Bundle))
	if err != nil {
		return nil, err
	}
	return &Request{Allow: head.Allow, Bundle: *bundle}, nil
}

// Encode returns the request as it travels.
func (r *Request) Encode() ([]byte, error) {
	bundle, err := r.Bundle.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Allow  config.Impact   `json:"allow,omitempty"`
		Bundle json.RawMessage `json:"bundle"`
	}{r.Allow, bundle})
}
