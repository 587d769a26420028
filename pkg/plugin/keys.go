// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// loginKey is the key that a host accepts of us, and the one that it is to accept.
func loginKey(status *v1alpha1.WindowsInstanceStatus, now time.Time) string {
	known := status.Credentials
	if known == nil {
		return none
	}
	text := keyOr(known.KeyFingerprint)
	if known.RotatingTo != "" {
		text += ", will become " + known.RotatingTo
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCredentialsCurrent); c != nil && c.Status != metav1.ConditionTrue {
		text += fmt.Sprintf(" (%s, not current for %s)", c.Reason, ago(c.LastTransitionTime.Time, now))
	}
	if refusesLogin(status) {
		text += "; the host refuses the login now"
	}
	return text
}

// keyOr names a fingerprint, of which an empty one stands for a password.
func keyOr(fingerprint string) string { return cmp.Or(fingerprint, "a password") }

// refusesLogin says whether a host accepts nothing that we have. What it accepted before stays in its status.
func refusesLogin(status *v1alpha1.WindowsInstanceStatus) bool {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAuthenticated)
	return c != nil && c.Reason == v1alpha1.ReasonCredentialsRefused
}

// rotationLine is what a rotation of keys does to a host. Empty: nothing.
func rotationLine(status *v1alpha1.WindowsInstanceStatus) string {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCredentialsCurrent)
	switch {
	case c == nil || c.Status == metav1.ConditionTrue:
		return ""
	case c.Reason == v1alpha1.ReasonKeyRotationFailed:
		return "could not be given its key"
	case c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
		return "did not answer while it was given its key"
	}
	return "is to get another key"
}

// keyLines say how far a rotation of keys has come, a line for each Secret whose hosts do not have the same key. Empty: they do.
// What the Secret has is not read: whoever follows a pool may not see it. So a rotation is known by the hosts that are getting a key,
// or that have another one than the others, which is also so where the Secret has several.
func keyLines(hosts []*v1alpha1.WindowsInstance) []string {
	bySecret := map[string]*keyCount{}
	for _, host := range hosts {
		if !host.DeletionTimestamp.IsZero() {
			continue // it gets no key any more
		}
		secret := ""
		if ref := host.Spec.CredentialsSecretRef; ref != nil {
			secret = ref.Name
		}
		if bySecret[secret] == nil {
			bySecret[secret] = &keyCount{accept: map[string]int{}}
		}
		bySecret[secret].add(&host.Status)
	}
	var lines []string
	for _, secret := range slices.Sorted(maps.Keys(bySecret)) {
		of := ""
		if secret != "" {
			of = " with Secret " + secret
		}
		if text := bySecret[secret].text(of); text != "" {
			lines = append(lines, "Keys: "+text)
		}
	}
	return lines
}

// keyCount counts the hosts of a Secret by their keys.
type keyCount struct {
	hosts int
	// accept is how many have a key and get no other one, by its fingerprint.
	accept map[string]int
	// fingerprints are all keys that hosts accept, or accepted before they refused the login.
	fingerprints []string
	// to are the keys that hosts are getting.
	to []string
	// waiting are hosts that are to get a key, failed and interrupted those that could not be given it, refuse those that accept
	// nothing that we have, and unknown those that were never logged in to.
	waiting, failed, interrupted, refuse, unknown int
}

// add counts a host.
func (k *keyCount) add(status *v1alpha1.WindowsInstanceStatus) {
	k.hosts++
	known := status.Credentials
	if known != nil && !slices.Contains(k.fingerprints, known.KeyFingerprint) {
		k.fingerprints = append(k.fingerprints, known.KeyFingerprint)
	}
	if known != nil && known.RotatingTo != "" && !slices.Contains(k.to, known.RotatingTo) {
		k.to = append(k.to, known.RotatingTo)
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCredentialsCurrent)
	switch {
	case refusesLogin(status):
		k.refuse++
	case known == nil:
		k.unknown++
	case known.RotatingTo == "":
		k.accept[known.KeyFingerprint]++
	case c != nil && c.Reason == v1alpha1.ReasonKeyRotationFailed:
		k.failed++
	case c != nil && c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
		k.interrupted++
	default:
		k.waiting++
	}
}

// text is how far the hosts are. of says which of the pool they are; empty: all. Empty: they have the same key, and none gets another one.
func (k *keyCount) text(of string) string {
	if len(k.to) == 0 && len(k.fingerprints) < 2 {
		return ""
	}
	slices.Sort(k.to)
	have := 0
	for _, fingerprint := range k.to {
		have += k.accept[fingerprint]
		delete(k.accept, fingerprint)
	}
	var parts []string
	say := func(n int, one, more, what string) {
		verb := words.Form(n, one, more)
		switch {
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("%d of %s%s %s %s", n, words.Count(k.hosts, "host"), of, verb, what))
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d %s %s", n, verb, what))
		}
	}
	if len(k.to) > 0 {
		say(have, "has", "have", "the new key "+strings.Join(k.to, " or "))
		say(k.waiting, "waits", "wait", "for it")
		say(k.failed, "could", "could", "not be given it")
		say(k.interrupted, "did", "did", "not answer meanwhile")
	}
	for _, fingerprint := range slices.SortedFunc(maps.Keys(k.accept), func(a, b string) int { return cmp.Or(k.accept[b]-k.accept[a], strings.Compare(a, b)) }) {
		say(k.accept[fingerprint], "accepts", "accept", keyOr(fingerprint))
	}
	say(k.refuse, "refuses", "refuse", "the login")
	say(k.unknown, "was", "were", "not logged in to yet")
	text := strings.Join(parts, ", ")
	if len(k.to) == 0 {
		text += ". The key of their Secret was replaced, or it has several"
	}
	return text + "."
}
