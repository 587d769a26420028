// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// maxKept bounds how many keys are kept for one Secret. A Secret that is replaced more often while a host is down
// loses the oldest.
const maxKept = 8

// progress is how many of the hosts of a Secret have which key.
type progress struct {
	// current have the key of the Secret, former another one, and unknown were not logged in to so far.
	current, former, unknown int
	// failed are those that could not be given the key.
	failed []string
}

// total is how many hosts there are.
func (p progress) total() int { return p.current + p.former + p.unknown }

// progressOf counts the hosts of a Secret that has the key with a fingerprint.
func progressOf(instances []*v1alpha1.WindowsInstance, fingerprint string) progress {
	var p progress
	for _, i := range instances {
		known := i.Status.Credentials
		if failedAt(i, fingerprint) {
			p.failed = append(p.failed, i.Name)
		}
		switch {
		case known == nil:
			p.unknown++
		case known.KeyFingerprint == fingerprint && known.RotatingTo == "":
			p.current++
		default:
			p.former++
		}
	}
	return p
}

// failedAt says whether the host of an instance could not be given a key.
func failedAt(i *v1alpha1.WindowsInstance, fingerprint string) bool {
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
	return c != nil && c.Reason == v1alpha1.ReasonKeyRotationFailed && i.Status.Credentials != nil && i.Status.Credentials.RotatingTo == fingerprint
}

// keep returns what is to be kept of a Secret that has now, is used by instances, and was kept as before. Former credentials go
// once all hosts have had the key for a while, grace: a host may be getting another one at this moment that the Secret
// had, and its status says so later. Of a compromised key the public part is kept, so that hosts lose it: there may be some that
// got the present one by hand.
func keep(before host.Kept, now host.KeptCredential, compromised []string, instances []*v1alpha1.WindowsInstance, at time.Time, grace time.Duration) host.Kept {
	p := progressOf(instances, now.Fingerprint)
	if p.total() == 0 {
		return host.Kept{}
	}
	after := host.Kept{RotatingTo: before.RotatingTo}
	add := func(c host.KeptCredential) {
		same := func(k host.KeptCredential) bool { return k.Fingerprint == c.Fingerprint }
		if slices.ContainsFunc(after.Credentials, same) || len(after.Credentials) >= maxKept {
			return
		}
		if slices.Contains(compromised, c.Fingerprint) {
			c = c.PublicOnly()
		}
		after.Credentials = append(after.Credentials, c)
	}
	// Before hosts lose their former key the new one is kept. One that no host has accepted, and that takes the place of
	// none, is not worth it: it may be a mistake.
	if p.current > 0 || p.former > 0 && now.Fingerprint != "" {
		add(now)
	}
	own := len(after.Credentials)
	done := p.current == p.total()
	if !done || before.RotatedAt == nil || at.Before(before.RotatedAt.Add(grace)) {
		for _, k := range before.Credentials {
			add(k)
		}
	}
	switch {
	case done:
		after.RotatingTo = ""
		if len(after.Credentials) > own {
			after.RotatedAt = cmp.Or(before.RotatedAt, &at)
		}
	case p.former > 0:
		after.RotatingTo = now.Fingerprint
	}
	return after
}

// compromisedKeys are the fingerprints in the annotation of a Secret.
func compromisedKeys(annotation string) []string {
	return strings.FieldsFunc(annotation, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}
