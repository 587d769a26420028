// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// leftFor is how long credentials are kept after hosts that may accept them have left their Secret: whoever gives a pool another
// Secret may take that back, and instances that were lost may be restored.
const leftFor = 7 * 24 * time.Hour

// maxUnusedRead is how many Secrets are read at a time that no instance has: whoever may write the kept Secret says how many these are.
const maxUnusedRead = 64

// progress is how many of the hosts of a Secret have which key.
type progress struct {
	// current have the key of the Secret, former another one, and unknown were not logged in to so far.
	current, former, unknown int
	// failed are those that could not be given the key.
	failed []string
}

// total is how many hosts there are.
func (p progress) total() int { return p.current + p.former + p.unknown }

// progressOf counts the hosts of a Secret that has the keys with fingerprints.
func progressOf(instances []*v1alpha1.WindowsInstance, fingerprints ...string) progress {
	var p progress
	for _, i := range instances {
		known := i.Status.Credentials
		if failedAt(i, fingerprints...) {
			p.failed = append(p.failed, i.Name)
		}
		switch {
		case known == nil:
			p.unknown++
		case slices.Contains(fingerprints, known.KeyFingerprint) && known.RotatingTo == "":
			p.current++
		default:
			p.former++
		}
	}
	return p
}

// failedAt says whether the host of an instance could not be given one of some keys.
func failedAt(i *v1alpha1.WindowsInstance, fingerprints ...string) bool {
	return endedAt(i, fingerprints, v1alpha1.ReasonKeyRotationFailed)
}

// triedAt says whether somebody has tried to give the host of an instance a key, which it may not have.
func triedAt(i *v1alpha1.WindowsInstance, fingerprint string) bool {
	return endedAt(i, []string{fingerprint}, v1alpha1.ReasonKeyRotationFailed, v1alpha1.ReasonKeyRotationInterrupted)
}

// endedAt says whether the host of an instance was not given one of some keys for one of some reasons.
func endedAt(i *v1alpha1.WindowsInstance, fingerprints []string, reasons ...string) bool {
	return slices.Contains(reasons, reasonOf(i, v1alpha1.ConditionCredentialsCurrent)) && i.Status.Credentials != nil && slices.Contains(fingerprints, i.Status.Credentials.RotatingTo)
}

// fingerprintsOf are those of credentials.
func fingerprintsOf(credentials []host.KeptCredential) []string {
	var out []string
	for _, c := range credentials {
		out = append(out, c.Fingerprint)
	}
	return out
}

// keep returns what is to be kept of a Secret that has now, each with one key, is used by instances, and was kept as before. Of further
// keys of the Secret those are kept that hosts accept: whoever takes one away overwrites the only copy of it, too. Former credentials go
// once all hosts have had the key for a while, grace: a host may be getting another one at this moment that the Secret
// had, and its status says so later. They stay longer when hosts have left that may accept them, and as long as the boot of a host
// may bring one back, see [mayGoBack]. Of a compromised key the public
// part is kept, so that hosts lose it: there may be some that got the present one by hand. Where the Secret still has it besides
// others, it is no key that hosts are to have. Of a Secret that is replaced more than
// [host.MaxKept] times while hosts do not get its keys, those go first that no host is known to accept.
func keep(before host.Kept, now []host.KeptCredential, compromised []string, instances []*v1alpha1.WindowsInstance, at time.Time, grace time.Duration) host.Kept {
	sound := soundOf(now, compromised)
	p, first := progressOf(instances, fingerprintsOf(sound)...), sound[0].Fingerprint
	before = whereHostsLeft(before, p, at)
	after := host.Kept{RotatingTo: before.RotatingTo, Hosts: p.current + p.former}
	add := func(c host.KeptCredential) {
		same := func(k host.KeptCredential) bool { return k.Fingerprint == c.Fingerprint }
		if slices.ContainsFunc(after.Credentials, same) || len(after.Credentials) >= host.MaxKept {
			return
		}
		if slices.Contains(compromised, c.Fingerprint) {
			c = c.PublicOnly()
		}
		if i := slices.IndexFunc(before.Credentials, same); i >= 0 {
			c.KeptUntil = before.Credentials[i].KeptUntil
		}
		if !keptAt(c, at) {
			c.KeptUntil = nil
		}
		after.Credentials = append(after.Credentials, c)
	}
	// Before hosts lose their former key the new one is kept. One that no host has accepted, and that takes the place of
	// none, is not worth it: it may be a mistake.
	accepted := acceptedBy(instances)
	for _, c := range now {
		if accepted.Has(c.Fingerprint) || c.Fingerprint == first && p.former > 0 && first != "" {
			add(c)
		}
	}
	own := len(after.Credentials)
	if own > 1 {
		after.Current = own
	}
	done := p.current == p.total()
	over := done && before.RotatedAt != nil && !at.Before(before.RotatedAt.Add(grace)) && !slices.ContainsFunc(instances, mayGoBack)
	needed := 0 // how many of those that follow a host accepts
	for _, k := range before.Credentials {
		if accepted.Has(k.Fingerprint) {
			needed++
		}
	}
	for _, k := range before.Credentials {
		if accepted.Has(k.Fingerprint) {
			needed--
		} else if host.MaxKept-len(after.Credentials) <= needed {
			continue // there is no room for both
		}
		if !over || keptAt(k, at) {
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
		after.RotatingTo = first
	}
	return after
}

// mayGoBack says whether the host of an instance may accept a former key again when Windows starts the next time, and nothing else: user
// data of WMCO authorizes that of the first day then, in the place of all others. The service of our agent replaces it once more, but a
// Machine that is only watched, or was adopted and waits for its first update, has no such service.
func mayGoBack(i *v1alpha1.WindowsInstance) bool {
	if owner := metav1.GetControllerOfNoCopy(i); owner == nil || owner.Kind != "Machine" {
		return false
	}
	switch reasonOf(i, v1alpha1.ConditionConfigured) {
	case v1alpha1.ReasonForeignNode, v1alpha1.ReasonManagedByWMCO, v1alpha1.ReasonNotManaged:
		return true
	}
	return i.Status.CurrentRevision == "" || wmco.IsAdoptedRevision(i.Status.CurrentRevision)
}

// needed are those of the keys of a Secret that hosts of the instances accept, and the first one, which all others get.
func needed(sound []string, instances []*v1alpha1.WindowsInstance) []string {
	accepted := acceptedBy(instances)
	return slices.DeleteFunc(slices.Clone(sound), func(key string) bool { return key != sound[0] && !accepted.Has(key) })
}

// acceptedBy returns the keys that the hosts of instances are known to accept, or are getting.
func acceptedBy(instances []*v1alpha1.WindowsInstance) sets.Set[string] {
	accepted := sets.New[string]()
	for _, i := range instances {
		if c := i.Status.Credentials; c != nil {
			accepted.Insert(c.KeyFingerprint)
			if c.RotatingTo != "" {
				accepted.Insert(c.RotatingTo)
			}
		}
	}
	return accepted
}

// keepUnused is keep for a Secret that no instance uses any more.
func keepUnused(before host.Kept, at time.Time) host.Kept {
	before = whereHostsLeft(before, progress{}, at)
	after := host.Kept{RotatingTo: before.RotatingTo}
	until := at.Add(leftFor)
	for _, k := range before.Credentials {
		k.KeptUntil = cmp.Or(k.KeptUntil, &until) // an earlier release did not count the hosts
		if keptAt(k, at) {
			after.Credentials = append(after.Credentials, k)
		}
	}
	if len(after.Credentials) == 0 {
		return host.Kept{}
	}
	return after
}

// whereHostsLeft returns what was kept, with until when that stays because there are fewer hosts now: of a Secret whose hosts had
// all a key of it these, else all, as nobody knows which of them a host has that is gone.
func whereHostsLeft(before host.Kept, p progress, at time.Time) host.Kept {
	if p.current+p.former >= before.Hosts {
		return before
	}
	until := at.Add(leftFor)
	before.Credentials = slices.Clone(before.Credentials)
	for i := range before.Credentials {
		if i < max(before.Current, 1) || before.RotatedAt == nil {
			before.Credentials[i].KeptUntil = &until
		}
	}
	return before
}

// keptAt says whether a credential is kept because hosts have left.
func keptAt(c host.KeptCredential, at time.Time) bool {
	return c.KeptUntil != nil && at.Before(*c.KeptUntil)
}

// withdraw takes the private parts of compromised keys from what was kept of a Secret, which is encoded as text, and encodes it again if
// it had any. What else is to be kept may have no room: these are gone all the same.
func withdraw(k *host.Kept, text []byte, compromised []string) ([]byte, error) {
	credentials := slices.Clone(k.Credentials)
	var found bool
	for i, c := range credentials {
		if c.LogsIn() && slices.Contains(compromised, c.Fingerprint) {
			credentials[i], found = c.PublicOnly(), true
		}
	}
	if !found {
		return text, nil
	}
	k.Credentials = credentials
	return k.Encode()
}

// nextUnused are those of the Secrets that no instance has, by name, which are read at a time. All of them are, one part after the other.
func nextUnused(names []string, at time.Time) []string {
	if len(names) <= maxUnusedRead {
		return names
	}
	parts := slices.Collect(slices.Chunk(names, maxUnusedRead))
	return parts[at.Unix()/int64(interval.Seconds())%int64(len(parts))]
}

// soundOf are those of the keys of a Secret that hosts are to accept.
func soundOf(now []host.KeptCredential, compromised []string) []host.KeptCredential {
	return host.Sound(now, func(c host.KeptCredential) bool { return slices.Contains(compromised, c.Fingerprint) })
}
