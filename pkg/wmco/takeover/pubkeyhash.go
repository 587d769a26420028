// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/ssh"
)

// PublicKeyHash returns the value of PublicKeyHashAnnotation for key: the SHA-256
// of its authorized_keys line without comment and newline, in lower-case hex.
func PublicKeyHash(key ssh.PublicKey) string {
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:])
}
