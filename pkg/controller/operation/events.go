// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

// eventEvictionBlocked is the reason of the event about a pod that may not leave. Those
// about an operation as a whole are its type and what happened to it: DrainStarted,
// DrainSucceeded, RebootFailed and so on.
const eventEvictionBlocked = "EvictionBlocked"

// maxEventNote is the limit of events.k8s.io/v1.
const maxEventNote = 1024

// event tells everybody. The action is the type of the operation.
func (e *execution) event(eventType, reason, note string) {
	if len(note) > maxEventNote {
		note = note[:maxEventNote-len("…")] + "…"
	}
	e.recorder.Eventf(e.instance, nil, eventType, reason, string(e.operation().Type), "%s", note)
}
