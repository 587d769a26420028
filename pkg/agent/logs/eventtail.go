// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import "unsafe"

// lastEvents are the newest of the events that are added: as many as are wanted, unless they need
// more than budget bytes of memory.
type lastEvents struct {
	wanted, budget int64

	// events are in the order in which they were added.
	events []*Event
	size   int64
	// incomplete says that there are more, which have no place.
	incomplete bool
}

// addOlder adds an event that is older than all others. It returns whether even older ones are wanted.
func (l *lastEvents) addOlder(e *Event) bool {
	if size := sizeOfEvent(e); l.size+size <= l.budget {
		l.events, l.size = append(l.events, e), l.size+size
		return int64(len(l.events)) < l.wanted
	}
	l.incomplete = true
	return false
}

// addNewer adds an event that is newer than all others, for which the oldest ones make room.
func (l *lastEvents) addNewer(e *Event) {
	l.events, l.size = append(l.events, e), l.size+sizeOfEvent(e)
	for int64(len(l.events)) > l.wanted || l.size > l.budget {
		l.size -= sizeOfEvent(l.events[0])
		l.events[0] = nil
		l.events = l.events[1:]
		l.incomplete = true
	}
	l.incomplete = l.incomplete && int64(len(l.events)) < l.wanted
}

// sizeOfEvent is how many bytes of memory an event takes in a list of them.
func sizeOfEvent(e *Event) int64 {
	const inList = 2 * int64(unsafe.Sizeof(e)) // the list grows by copying
	return int64(unsafe.Sizeof(*e)) + inList + int64(len(e.Message)+len(e.Provider)+len(e.Channel)+len(e.Level))
}
