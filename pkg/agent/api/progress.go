// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"time"
)

// EventState says how far an item is.
type EventState string

// States of items.
const (
	EventStarted EventState = "Started"
	EventDone    EventState = "Done"
	EventFailed  EventState = "Failed"
	// EventNote reports something in between, as a service that has to be terminated.
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
	// OutcomeFailed: it did not complete. The same can be applied again.
	OutcomeFailed Outcome = "Failed"
	// OutcomeRemoved: nothing of ours is left on the host.
	OutcomeRemoved Outcome = "Removed"
	// OutcomeReleased: what is on the host is not ours any more, and is as it was.
	OutcomeReleased Outcome = "Released"
)

// FailureReason is the machine-readable reason of a failure.
type FailureReason string

// Reasons of failures.
const (
	// ReasonLocked: another process changes the host. Try again.
	ReasonLocked FailureReason = "Locked"
	// ReasonInventory: the inventory cannot be read; an administrator has to inspect it.
	ReasonInventory FailureReason = "InventoryUnreadable"
	// ReasonConflict: something that is not ours is in the way.
	ReasonConflict FailureReason = "Conflict"
	// ReasonPayload: files of the payload have to be sent first.
	ReasonPayload FailureReason = "PayloadMissing"
	// ReasonSpace: a volume has not enough free space.
	ReasonSpace FailureReason = "NoSpace"
	// ReasonStep: a step failed. Trying again may help.
	ReasonStep FailureReason = "StepFailed"
)

// Result is how it ended, and the last line of the answer.
type Result struct {
	// Revision of the document; empty when everything is removed.
	Revision string  `json:"revision,omitempty"`
	Outcome  Outcome `json:"outcome"`
	// Changed are the items that were done, in that order.
	Changed []Item `json:"changed"`
	// Plan is what would have been done. Set for ImpactExceeded only.
	Plan *Plan `json:"plan,omitempty"`
	// Reboot says what a restart of the host is needed for.
	Reboot []string `json:"reboot,omitempty"`
	// AtBoot names what is still in use after everything was removed. Windows removes it when it
	// restarts the next time, whenever that is; nothing waits for that.
	AtBoot []string `json:"atBoot,omitempty"`
	// Networks names what stays of the Host Networking Service after everything was removed, as others
	// have made it, and holds the address of an adapter.
	Networks []string `json:"networks,omitempty"`
	// Left is what whoever has the host next has to know of it, when it was given up.
	Left *Left `json:"left,omitempty"`
	// Reason and Error are set for Failed only.
	Reason FailureReason `json:"reason,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Progress is one line of what "apply" and "cleanup" answer. One of its members is set;
// the last line has the result.
type Progress struct {
	Event  *Event  `json:"event,omitempty"`
	Result *Result `json:"result,omitempty"`
}
