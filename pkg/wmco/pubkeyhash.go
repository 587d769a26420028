// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"crypto/sha256"
	"encoding/hex"
)

// PublicKeyHash returns the value of [PublicKeyHashAnnotation] for a key, which is written as type and base64, as in an
// authorized_keys file without options and comment: the SHA-256 of that in lower-case hex.
func PublicKeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
