// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import "github.com/openshift/windows-instance-api/pkg/controller/internal/message"

// eventEvictionBlocked is the reason of the event about a pod that may not leave. Those
// about an operation as a whole are its type and what happened to it: DrainStarted,
// DrainSucceeded, RebootFailed and so on; those about its steps are in stepReasons.
const eventEvictionBlocked = "EvictionBlocked"

// event sends an event about the instance.
func (e *execution) event(eventType, reason, note string) {
	e.Recorder.Event(e.instance, eventType, reason, message.EventNote(note))
}
