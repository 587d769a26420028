// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"encoding/json"
	"fmt"
	"time"
)

// KeptSecret is the Secret, in the namespace of a Secret with credentials, in which the controller keeps the
// credentials that it has logged in with: whoever replaces those of a Secret overwrites the only copy, and hosts
// accept them until they have the new key. It has a [Kept] for each Secret with credentials, by its name.
const KeptSecret = "windows-keys-in-use"

// Kept are the credentials of one Secret that hosts may still accept.
type Kept struct {
	// Credentials are the data of the Secret as it was, newest first.
	Credentials []KeptCredential `json:"credentials,omitempty"`
	// RotatingTo is the fingerprint of the key that hosts are getting. Empty: all of them have the same.
	RotatingTo string `json:"rotatingTo,omitempty"`
	// RotatedAt is since when all of them have it, while former credentials are still kept. Nil: they have not, or
	// there are no others.
	RotatedAt *time.Time `json:"rotatedAt,omitempty"`
}

// KeptCredential is the data of a Secret of some time.
type KeptCredential struct {
	// Fingerprint is that of its key. Empty: it has a password only.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Data are the keys of the Secret that credentials are read from.
	Data map[string][]byte `json:"data"`
}

// ParseKept reads what the Secret has for one Secret with credentials; nothing is none.
func ParseKept(text []byte) (Kept, error) {
	var kept Kept
	if len(text) == 0 {
		return kept, nil
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		// The cause is left out: it may quote the input.
		return Kept{}, fmt.Errorf("the credentials that were kept cannot be read")
	}
	return kept, nil
}

// Encode is the form that ParseKept reads.
func (k Kept) Encode() ([]byte, error) { return json.Marshal(k) }

// NewKeptCredential is what is kept of the data of a Secret. It fails where a host could not be logged in to with it.
func NewKeptCredential(data map[string][]byte) (KeptCredential, error) {
	credential, err := parseCredential(data)
	if err != nil {
		return KeptCredential{}, err
	}
	out := KeptCredential{Fingerprint: fingerprintOf(credential), Data: map[string][]byte{}}
	for _, key := range credentialKeys {
		if len(data[key]) > 0 {
			out.Data[key] = data[key]
		}
	}
	return out, nil
}
