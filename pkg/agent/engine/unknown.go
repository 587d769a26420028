// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// inventoryReader is what this agent understands of an inventory. It grows with what an agent before it must not ignore: a kind of object
// that it would not remove, or a value that changes what a record means. An inventory that has such a thing requires the number. Whatever
// else is added has an older agent do what it always did: it ignores that, and keeps it.
const inventoryReader = 1

// requiredReader says which agents may use an inventory.
type requiredReader struct {
	// Reader is the least [inventoryReader].
	Reader int `json:"reader"`
	// Release is the first release whose agent has it, for people.
	Release string `json:"release"`
}

// check returns an error if the inventory is none for this agent. Nil is one for all.
func (r *requiredReader) check() error {
	if r == nil || r.Reader <= inventoryReader {
		return nil
	}
	release := "the later release"
	if r.Release != "" {
		release = "release " + r.Release
	}
	return inventoryError("this release is older than the one that has changed the host, and must not ignore what that has recorded. Nothing was done. "+
		"Install %s of windows-apiserver and windows-controller again, or one after it; to go back all the same, first remove the host from the cluster with that release", release)
}

// unknown is what an object of JSON has that the types of this agent do not: a later release wrote it. What the object is for is in the
// host as before when it is written again.
type unknown struct {
	// members are those of the object itself, as they were read.
	members map[string]json.RawMessage
	// below are those of the objects that are its members, by name.
	below map[string]*unknown
}

// unknownOf returns what have has that known lacks, which is the same as this agent writes it. Nil: nothing.
func unknownOf(have, known json.RawMessage) *unknown {
	theirs, ours := objectsIn(have), objectsIn(known)
	if theirs == nil || ours == nil {
		return nil
	}
	u := &unknown{members: map[string]json.RawMessage{}, below: map[string]*unknown{}}
	for name, value := range theirs {
		same, ok := ours[name]
		if !ok {
			u.members[name] = value
		} else if below := unknownOf(value, same); below != nil {
			u.below[name] = below
		}
	}
	if len(u.members)+len(u.below) == 0 {
		return nil
	}
	return u
}

// objectsIn returns the members of an object, or the objects of a list by their names. Nil: the text is neither.
func objectsIn(text json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) == nil {
		return object // nil for null
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	object = map[string]json.RawMessage{}
	for _, value := range list {
		if name := nameOf(value); name != "" {
			object[name] = value
		}
	}
	return object
}

// nameOf returns the name of an object in a list. Empty: it has none.
func nameOf(text json.RawMessage) string {
	var object struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(text, &object) != nil {
		return ""
	}
	return object.Name
}

// addTo returns the text of the object with what is unknown. What belongs to an object that is gone goes with it.
func (u *unknown) addTo(text json.RawMessage) (json.RawMessage, error) {
	if u == nil {
		return text, nil
	}
	if bytes.HasPrefix(text, []byte("[")) {
		return u.addToList(text)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("add what is not known: %w", err)
	}
	for name, value := range u.members {
		if _, ok := object[name]; !ok {
			object[name] = value
		}
	}
	for name, below := range u.below {
		value, ok := object[name]
		if !ok {
			continue
		}
		var err error
		if object[name], err = below.addTo(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

func (u *unknown) addToList(text json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("add what is not known: %w", err)
	}
	for i, value := range list {
		var err error
		if list[i], err = u.below[nameOf(value)].addTo(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(list)
}
