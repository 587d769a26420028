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

const (
	// MaxKept is how many credentials are kept of one Secret, and read of what somebody else may have written.
	MaxKept = 8
	// MaxKeptBytes is the most that they take. Eight RSA keys of 16384 bits take half of it.
	MaxKeptBytes = 256 << 10
)

// Kept are the credentials of one Secret that hosts may still accept.
type Kept struct {
	// Credentials are the data of the Secret as it was, newest first, each with one key.
	Credentials []KeptCredential `json:"credentials,omitempty"`
	// RotatingTo is the fingerprint of the key that hosts are getting. Empty: all of them have the same.
	RotatingTo string `json:"rotatingTo,omitempty"`
	// RotatedAt is since when all of them have it, while former credentials are still kept. Nil: they have not, or
	// there are no others.
	RotatedAt *time.Time `json:"rotatedAt,omitempty"`
	// Current is how many of them, from the first, were those of the Secret itself, where it had several keys. Zero: one.
	Current int `json:"current,omitempty"`
	// Hosts is how many hosts of the Secret were known to accept one of them. When there are fewer, some may be back later, with
	// the key that they had.
	Hosts int `json:"hosts,omitempty"`
}

// KeptCredential is the data of a Secret of some time.
type KeptCredential struct {
	// Fingerprint is that of its key. Empty: it has a password only.
	Fingerprint string `json:"fingerprint,omitempty"`
	// PublicKey is its key as type and base64. Empty: it has a password only, or was kept by an earlier release, which wrote
	// none.
	PublicKey string `json:"publicKey,omitempty"`
	// Data are the keys of the Secret that credentials are read from. Empty: the key is only removed from hosts, and none is
	// logged in to with it.
	Data map[string][]byte `json:"data,omitempty"`
	// KeptUntil is until when it is kept at least, because hosts that may accept it have left the Secret. Nil: none has.
	KeptUntil *time.Time `json:"keptUntil,omitempty"`
}

// LogsIn says whether hosts are logged in to with it.
func (k KeptCredential) LogsIn() bool { return len(k.Data) > 0 }

// PublicOnly is what is kept of a key with which nobody is to log in any more.
func (k KeptCredential) PublicOnly() KeptCredential {
	out := KeptCredential{Fingerprint: k.Fingerprint, PublicKey: k.PublicKey, KeptUntil: k.KeptUntil}
	if out.PublicKey == "" {
		if key, err := PublicKey(k.Data); err == nil {
			out.PublicKey = key.String()
		}
	}
	return out
}

// ParseKept reads what the Secret has for one Secret with credentials; nothing is none. Whoever may write Secrets in the
// namespace may have written it: it is bounded, and has [MaxKept] credentials at most.
func ParseKept(text []byte) (Kept, error) {
	var kept Kept
	if len(text) == 0 {
		return kept, nil
	}
	if len(text) > MaxKeptBytes {
		return Kept{}, fmt.Errorf("the credentials that were kept have more than %d bytes", MaxKeptBytes)
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		// The cause is left out: it may quote the input.
		return Kept{}, fmt.Errorf("the credentials that were kept cannot be read")
	}
	if len(kept.Credentials) > MaxKept {
		kept.Credentials = kept.Credentials[:MaxKept]
	}
	return kept, nil
}

// Encode is the form that ParseKept reads.
func (k Kept) Encode() ([]byte, error) { return json.Marshal(k) }

// Keep returns what is kept of the data of a Secret: its first key with the password, then each further one by itself. It fails where a
// host could not be logged in to with it. What was read before is not read again.
func (c *CredentialCache) Keep(data map[string][]byte) ([]KeptCredential, error) {
	parsed, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	if len(parsed.identities) == 0 {
		return []KeptCredential{{Data: map[string][]byte{keyPassword: data[keyPassword]}}}, nil
	}
	var out []KeptCredential
	for n, i := range parsed.identities {
		k := KeptCredential{Fingerprint: i.fingerprint(), PublicKey: i.key().String(), Data: map[string][]byte{}}
		put := func(key, from string) {
			if len(data[from]) > 0 {
				k.Data[key] = data[from]
			}
		}
		put(keyPrivateKey, i.file)
		put(keyPrivateKey+certificateSuffix, i.file+certificateSuffix)
		put(keyPassphrase, keyPassphrase)
		if n == 0 {
			put(keyPassword, keyPassword)
		}
		out = append(out, k)
	}
	return out, nil
}
