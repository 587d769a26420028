// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import "strings"

// eventEvictionBlocked is the reason of the event about a pod that may not leave. Those
// about an operation as a whole are its type and what happened to it: DrainStarted,
// DrainSucceeded, RebootFailed and so on.
const eventEvictionBlocked = "EvictionBlocked"

// maxEventNote is the limit that events.k8s.io/v1 has, through which events are read as well.
const maxEventNote = 1024

// event tells everybody.
func (e *execution) event(eventType, reason, note string) {
	if len(note) > maxEventNote {
		// Without cutting a character.
		note = strings.ToValidUTF8(note[:maxEventNote-len("…")], "") + "…"
	}
	e.recorder.Event(e.instance, eventType, reason, note)
}
