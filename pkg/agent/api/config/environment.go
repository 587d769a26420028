// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"maps"
	"slices"
	"strings"
)

// OwnedVariable is a variable of the machine that an earlier document set.
type OwnedVariable struct {
	// Value that was set.
	Value string `json:"value"`
	// Before is what the variable was before it became ours. Nil: there was none.
	Before *string `json:"before,omitempty"`
}

// EnvironmentChange is one change of the variables of a machine.
type EnvironmentChange struct {
	Name string
	// Value that the variable gets. Nil: the variable is removed.
	Value *string
}

// EnvironmentChanges returns how the variables of a machine become the desired ones,
// sorted by name, and which variables are ours then.
//
// What we set and is desired no more becomes what it was before, unless somebody
// changed it since. A variable that we never set is touched only when it is desired.
// Names are compared in any case, as Windows does.
func EnvironmentChanges(desired, existing map[string]string, owned map[string]OwnedVariable) ([]EnvironmentChange, map[string]OwnedVariable) {
	existing, owned = foldKeys(existing), foldKeys(owned)
	kept := map[string]OwnedVariable{}
	var changes []EnvironmentChange
	for name, value := range desired {
		key := strings.ToUpper(name)
		own, ours := owned[key]
		delete(owned, key)
		current, exists := existing[key]
		if !ours && exists {
			own.Before = &current
		}
		own.Value = value
		kept[name] = own
		if !exists || current != value {
			changes = append(changes, EnvironmentChange{Name: name, Value: &value})
		}
	}
	for name, own := range owned {
		// Somebody else's value is not ours to take away.
		if current, exists := existing[name]; exists && current == own.Value {
			changes = append(changes, EnvironmentChange{Name: name, Value: own.Before})
		}
	}
	slices.SortFunc(changes, func(a, b EnvironmentChange) int { return strings.Compare(a.Name, b.Name) })
	return changes, kept
}

// foldKeys returns a copy with keys in upper case.
func foldKeys[T any](m map[string]T) map[string]T {
	folded := make(map[string]T, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		folded[strings.ToUpper(key)] = m[key]
	}
	return folded
}
