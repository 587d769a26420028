// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint is that of a certificate in DER as documents have it, see [Certificate].
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
