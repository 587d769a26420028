// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package hostkey reads what spec.hostKeys says, and is the only one that does: a line that the API accepts is the same key to whoever
// trusts it. It imports no other package of this project.
package hostkey

import (
	"encoding/base64"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// ErrNotOneKey means that there are options before a key, or more after it.
var ErrNotOneKey = errors.New("there is more than one key")

// Parse reads the key of an entry of spec.hostKeys: its type, the key in base64, and maybe a comment. Lines before it that are empty or
// begin with # are passed over, as in a known_hosts file.
func Parse(text string) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading a host key: %w", err)
	}
	if len(options) > 0 || len(rest) > 0 {
		return nil, ErrNotOneKey
	}
	return key, nil
}

// ParseBase64 reads a key as status.hostKeys has it, without its type, which it begins with.
func ParseBase64(text string) (ssh.PublicKey, error) {
	wire, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("reading a host key: %w", err)
	}
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		return nil, fmt.Errorf("reading a host key: %w", err)
	}
	return key, nil
}

// Base64 is a key as status.hostKeys has it, beside its type.
func Base64(key ssh.PublicKey) string { return base64.StdEncoding.EncodeToString(key.Marshal()) }

// Base64Of are the keys of the entries of spec.hostKeys in base64, without those that cannot be read.
func Base64Of(entries []string) []string {
	var keys []string
	for _, entry := range entries {
		if key, err := Parse(entry); err == nil {
			keys = append(keys, Base64(key))
		}
	}
	return keys
}
