// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Key is the public key of a host. Two are equal if they are the same key; the zero Key is none.
type Key struct{ algorithm, base64, fingerprint string }

// ParseKey reads a key in the form of spec.hostKeys: type, base64, and maybe a comment.
func ParseKey(line string) (Key, error) {
	key, err := hostkey.Parse(line)
	if err != nil {
		return Key{}, err
	}
	return KeyOf(key), nil
}

// errNotPresentable means that no host proves to have a key.
var errNotPresentable = errors.New("hosts are not asked for keys of its type")

// ParsePresentable reads a key of a host in base64, without its type. It has to be one that a host presents when it is asked for.
func ParsePresentable(text string) (Key, error) {
	key, err := hostkey.ParseBase64(text)
	if err != nil {
		return Key{}, err
	}
	if !ssh.Presentable(key) {
		return Key{}, errNotPresentable
	}
	return KeyOf(key), nil
}

// KeyOf is a key as package ssh has it; nil is none.
func KeyOf(key ssh.PublicKey) Key {
	if key == nil {
		return Key{}
	}
	return Key{key.Type(), hostkey.Base64(key), ssh.Fingerprint(key)}
}

// IsZero says whether it is no key.
func (k Key) IsZero() bool { return k == Key{} }

// Type is the name of the algorithm, as ssh-ed25519.
func (k Key) Type() string { return k.algorithm }

// Base64 is the key without its type, as in status.hostKeys.
func (k Key) Base64() string { return k.base64 }

// Fingerprint is what ssh-keygen -l shows of it.
func (k Key) Fingerprint() string { return k.fingerprint }

// String is the key in the form of spec.hostKeys.
func (k Key) String() string { return k.algorithm + " " + k.base64 }

// Describe is type and fingerprint, for people.
func (k Key) Describe() string { return k.algorithm + " " + k.fingerprint }

// trustedKeys returns the keys that the host may present: those of spec.hostKeys,
// or without any those that were recorded in status.hostKeys. None means that the
// host was never met; then nothing but reading its key is possible.
func trustedKeys(instance *v1alpha1.WindowsInstance) ([]ssh.PublicKey, error) {
	lines := instance.Spec.HostKeys
	if len(lines) == 0 {
		for _, key := range instance.Status.HostKeys {
			lines = append(lines, key.Type+" "+key.Key)
		}
	}
	return parseKeys(lines)
}

func parseKeys(lines []string) ([]ssh.PublicKey, error) {
	keys := make([]ssh.PublicKey, 0, len(lines))
	for _, line := range lines {
		key, err := hostkey.Parse(line)
		if err != nil {
			return nil, fmt.Errorf("the recorded host key %q cannot be read: %w", line, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
