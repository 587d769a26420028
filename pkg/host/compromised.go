// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// CompromisedKeys are the fingerprints of the keys that somebody else may have, by the annotations of a Secret with credentials or of
// [KeptSecret].
func CompromisedKeys(annotations map[string]string) []string {
	return strings.FieldsFunc(annotations[v1alpha1.CompromisedKeysAnnotation], func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}

// Sound are those of the keys of a Secret that hosts are to accept, where some are compromised: the others, or all of them if there
// are no others, because nothing else can be used then.
func Sound[T any](keys []T, compromised func(T) bool) []T {
	if others := slices.DeleteFunc(slices.Clone(keys), compromised); len(others) > 0 {
		return others
	}
	return keys
}

// SoundPublicKey is the public key of the data of a Secret that new hosts must have authorized, where the keys with some
// fingerprints are compromised: [PublicKey], or if that is one of them the first further key that is none. The zero value: all of
// them are compromised.
func SoundPublicKey(data map[string][]byte, compromised []string) (Key, error) {
	first, err := PublicKey(data)
	if err != nil || !slices.Contains(compromised, first.Fingerprint()) {
		return first, err
	}
	all, err := parseCredentials(data)
	if err != nil {
		return Key{}, err
	}
	for _, i := range all.identities {
		if !slices.Contains(compromised, i.fingerprint()) {
			return i.key(), nil
		}
	}
	return Key{}, nil
}

// sound are the credentials with those of their keys only that hosts are to accept. Connections that may have been made with
// another one are not shared with them.
func (c credentials) sound() credentials {
	all := len(c.identities)
	if c.identities = Sound(c.identities, func(i identity) bool { return i.compromised }); len(c.identities) < all {
		c.id += "-"
	}
	return c
}

// lost are the identities that hosts are to accept no more although the Secret has them.
func (c credentials) lost() []identity {
	sound := c.sound()
	return slices.DeleteFunc(slices.Clone(c.identities), func(i identity) bool {
		_, good := sound.own(i.fingerprint())
		return good
	})
}

// withCompromised are the credentials of a Secret of which the keys with some fingerprints are compromised.
func (c credentials) withCompromised(secret types.NamespacedName, fingerprints []string) credentials {
	c.identities = slices.Clone(c.identities)
	var warnings []string
	for n := range c.identities {
		i := &c.identities[n]
		if i.compromised = slices.Contains(fingerprints, i.fingerprint()); i.compromised {
			warnings = append(warnings, i.warning(secret))
		}
	}
	c.warning = strings.Join(warnings, " ")
	return c
}

// warning is that a Secret has the identity although it is compromised, and what to do: a sentence.
func (i identity) warning(secret types.NamespacedName) string {
	text := fmt.Sprintf("Secret %s still has key %s, which is said to be compromised (%s), in %s: ", secret, i.fingerprint(), v1alpha1.CompromisedKeysAnnotation, i.file)
	if i.file == keyPrivateKey {
		return text + "put a new key in its place, which ssh-keygen -t ed25519 -N '' -f new-key makes."
	}
	remove := fmt.Sprintf(`{"op":"remove","path":"/data/%s"}`, i.file)
	if i.certificate != nil {
		remove += fmt.Sprintf(`,{"op":"remove","path":"/data/%s"}`, i.file+certificateSuffix)
	}
	return text + fmt.Sprintf("remove it: kubectl patch secret %s -n %s --type=json -p '[%s]'.", secret.Name, secret.Namespace, remove)
}

// Compromised says, in sentences, which of some compromised keys the data of a Secret has, and what to do. Empty: none, or the data
// cannot be used.
func (c *CredentialCache) Compromised(secret types.NamespacedName, data map[string][]byte, fingerprints []string) string {
	parsed, err := c.parse(data)
	if err != nil {
		return ""
	}
	return parsed.withCompromised(secret, fingerprints).warning
}
