// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PatchOperation is what a patch does with each label and annotation.
type PatchOperation string

const (
	// PatchAdd sets a value, whether there was one before or not.
	PatchAdd PatchOperation = "add"
	// PatchRemove removes a value. The whole patch fails when there is none.
	PatchRemove PatchOperation = "remove"
)

// jsonPatch is one operation of RFC 6902.
type jsonPatch struct {
	Op   PatchOperation `json:"op"`
	Path string         `json:"path"`
	// Value is nil for an operation that has none, and present, also when it is
	// empty, for one that needs it.
	Value *string `json:"value,omitempty"`
}

// MetadataPatch returns the JSON patch that does operation with the labels and
// annotations of an object, labels first, each sorted by key. The values do not count
// when they are removed. To change nothing is an error.
func MetadataPatch(operation PatchOperation, labels, annotations map[string]string) ([]byte, error) {
	if operation != PatchAdd && operation != PatchRemove {
		return nil, fmt.Errorf("operation %q is not known", operation)
	}
	if len(labels)+len(annotations) == 0 {
		return nil, errors.New("there are neither labels nor annotations to patch")
	}
	var operations []jsonPatch
	add := func(member string, values map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			patch := jsonPatch{Op: operation, Path: "/metadata/" + member + "/" + escapePointer(key)}
			if operation == PatchAdd {
				value := values[key]
				patch.Value = &value
			}
			operations = append(operations, patch)
		}
	}
	add("labels", labels)
	add("annotations", annotations)
	encoded, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return encoded, nil
}

// escapePointer makes key one element of a JSON pointer (RFC 6901, section 3). The
// replacer goes over the key once, so that the tilde of one escape is not escaped again.
func escapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
