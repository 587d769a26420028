// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// equal says whether two apply configurations say the same. Objects without any
// member say nothing: a server that works on Go types adds them for structs.
func equal(a, b any) (bool, error) {
	treeA, err := toTree(a)
	if err != nil {
		return false, err
	}
	treeB, err := toTree(b)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(prune(treeA), prune(treeB)), nil
}

// contains says whether all that want says holds of have. Objects in lists are told
// apart by their type, as conditions are; those without one must be at the same place.
func contains(have, want any) (bool, error) {
	treeHave, err := toTree(have)
	if err != nil {
		return false, err
	}
	treeWant, err := toTree(want)
	if err != nil {
		return false, err
	}
	return covers(treeHave, treeWant), nil
}

func toTree(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return tree, nil
}

// prune takes members without content out of a tree.
func prune(tree any) any {
	object, ok := tree.(map[string]any)
	if !ok {
		return tree // an empty list is not encoded in the first place
	}
	for key, value := range object {
		if object[key] = prune(value); object[key] == nil {
			delete(object, key)
		}
	}
	if len(object) == 0 {
		return nil
	}
	return object
}

func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			if !covers(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		for i, item := range want {
			if !anyCovers(have, i, item) {
				return false
			}
		}
		return true
	default:
		// A zero value may be left out where it means the same.
		return have == want || have == nil && reflect.ValueOf(want).IsZero()
	}
}

// anyCovers says whether the item of the same type covers want, or, if it has none, the one at
// the same place.
func anyCovers(have []any, at int, want any) bool {
	wanted, _ := want.(map[string]any)
	if wanted["type"] == nil {
		return at < len(have) && covers(have[at], want)
	}
	for _, item := range have {
		if found, _ := item.(map[string]any); found["type"] == wanted["type"] {
			return covers(found, wanted)
		}
	}
	return false
}
