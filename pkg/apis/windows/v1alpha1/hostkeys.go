// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxGivenHostKeys is how many there may be in spec.hostKeys.
const maxGivenHostKeys = 16

// GiveHostKeys has an instance that is about to be created trust these keys from its first moment on.
func (i *WindowsInstance) GiveHostKeys(keys []HostKeyStatus) error {
	raw, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("writing host keys: %w", err)
	}
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, HostKeysAnnotation, string(raw))
	return nil
}

// TakeHostKeys takes the keys out of the metadata of an instance that is being created. Keys that cannot be
// read stay there, with an error.
func TakeHostKeys(meta *metav1.ObjectMeta) ([]HostKeyStatus, error) {
	raw, given := meta.Annotations[HostKeysAnnotation]
	if !given {
		return nil, nil
	}
	var keys []HostKeyStatus
	switch err := json.Unmarshal([]byte(raw), &keys); {
	case err != nil:
		return nil, fmt.Errorf("reading host keys: %w", err)
	case len(keys) > maxGivenHostKeys:
		return nil, fmt.Errorf("there are %d host keys, and at most %d are allowed", len(keys), maxGivenHostKeys)
	case slices.ContainsFunc(keys, func(k HostKeyStatus) bool { return k.Type == "" || k.Key == "" }):
		return nil, fmt.Errorf("one of the %d host keys has no type, or is empty", len(keys))
	}
	delete(meta.Annotations, HostKeysAnnotation)
	return keys, nil
}
