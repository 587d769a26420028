// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"fmt"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// maxSkew is by how many minor versions a kubelet may be older than the API server, by
// the version skew policy of Kubernetes (https://kubernetes.io/releases/version-skew-policy/).
// It may never be newer. Patches do not count.
const maxSkew = 3

// newer compares minor versions. Nothing is newer than what is not known, nor the other way round.
func newer(a, b *utilversion.Version) bool {
	return a != nil && b != nil && minor(b).LessThan(minor(a))
}

// sameMinor says whether two versions are known to be of the same minor one.
func sameMinor(a, b *utilversion.Version) bool {
	return a != nil && b != nil && minor(a).EqualTo(minor(b))
}

func minor(v *utilversion.Version) *utilversion.Version {
	return utilversion.MajorMinor(v.Major(), v.Minor())
}

// verdict is why a payload was chosen, or why none was.
type verdict int

const (
	// newest is the newest whose kubelet is not newer than the API servers.
	newest verdict = iota
	// kept is that of the kubelet that the host has, which is newer than the API servers say now.
	kept
	// held is that of the kubelet that the host has, until it is known that no API server is older.
	held
	// allNewer: all kubelets are newer than the API servers.
	allNewer
	// onlyBack: those that are not newer than the API servers are older than that of the host, and there are newer ones, too.
	onlyBack
)

// choose chooses a payload by the versions of their kubelets, which ascend, those of the API servers, and that of
// the kubelet that runs on the host; nil: there is none, or it is not known. A host that runs is moved to an older
// kubelet only if all payloads have older ones: then that is what somebody wants, and not what an API
// server said that is about to be upgraded.
func choose(kubelets []*utilversion.Version, servers Servers, running *utilversion.Version) (n int, why verdict) {
	n = -1
	for i, kubelet := range kubelets {
		if !newer(kubelet, servers.Lowest) {
			n = i
		}
	}
	if n < 0 {
		return n, allNewer
	}
	own := -1
	for i, kubelet := range kubelets {
		if sameMinor(kubelet, running) {
			own = i
		}
	}
	switch {
	case newer(running, kubelets[n]):
		if own >= 0 {
			return own, kept
		}
		if newer(kubelets[len(kubelets)-1], running) {
			return -1, onlyBack
		}
	case newer(kubelets[n], running) && !servers.Settled && own >= 0:
		return own, held
	}
	return n, newest
}

// tooNew is the finding that all kubelets are newer than the API servers.
func tooNew(candidates []candidate, servers Servers) Finding {
	var versions []string
	for _, c := range candidates {
		versions = append(versions, c.kubelet.String())
	}
	problem := fmt.Sprintf("the kubelet %s of the payload is newer than the API server %s, which is not supported", versions[0], servers.Lowest)
	if len(versions) > 1 {
		problem = fmt.Sprintf("the kubelets of all payloads, %s, are newer than the API server %s, which is not supported", strings.Join(versions, ", "), servers.Lowest)
	}
	return Finding{Problem: problem, Remedy: payloadFor("use", servers.Lowest, servers)}
}

// notBack is the finding that a host would have to be moved to an older kubelet.
func notBack(servers Servers, running *utilversion.Version) Finding {
	return Finding{
		Problem: fmt.Sprintf("the host has the kubelet %s, and the payloads that are not newer than the API server %s have only older ones", running, servers.Lowest),
		Remedy:  payloadFor("add", running, servers) + "; to move the host back, remove the payloads that are newer",
	}
}

// oldestPayload is the oldest minor version that hack/build-payload.sh builds a payload for.
var oldestPayload = utilversion.MajorMinor(1, 35)

// payloadFor says how to come by a payload for a kubelet of a version that the API servers permit, or for a newer one where this release
// builds none that is as old.
func payloadFor(verb string, kubelet *utilversion.Version, servers Servers) string {
	switch {
	case !newer(oldestPayload, kubelet):
		return verb + " a payload for it, " + makePayload(kubelet)
	case !newer(oldestPayload, servers.Lowest):
		return verb + " a payload with a newer one, " + makePayload(oldestPayload)
	}
	return fmt.Sprintf("this release has payloads for Kubernetes %s and newer: upgrade the cluster first", oldestPayload)
}

// makePayload is the command that builds a payload.
func makePayload(v *utilversion.Version) string {
	return fmt.Sprintf("make payload KUBERNETES=%d.%d", v.Major(), v.Minor())
}

// skewWarning says what of a kubelet is not supported, or what it waits for. Empty: nothing.
func skewWarning(kubelet *utilversion.Version, servers Servers, why verdict) string {
	switch {
	case why == held:
		return fmt.Sprintf("the host keeps the kubelet %s until it is certain that no API server is older than %s", kubelet, servers.Lowest)
	case why == kept:
		return fmt.Sprintf("the kubelet %s of the host is newer than the API server %s, which is not supported, and is kept: finish the upgrade of the API servers; to move the host back, remove the payloads that are newer", kubelet, servers.Lowest)
	case kubelet != nil && servers.Lowest != nil && kubelet.Major() == servers.Lowest.Major() && kubelet.Minor()+maxSkew < servers.Lowest.Minor():
		return fmt.Sprintf("the kubelet %s of the payload is more than %d minor versions older than the API server %s, which is not supported: use a newer payload", kubelet, maxSkew, servers.Lowest)
	}
	return ""
}

// release parses a version. It is nil if it says nothing, as v0.0.0 of what is no release.
func release(text string) *utilversion.Version {
	v, err := utilversion.ParseGeneric(text)
	if err != nil || v.Major() == 0 {
		return nil
	}
	return v
}

// sortCandidates sorts payloads by the versions of their kubelets.
func sortCandidates(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch {
		case a.kubelet == nil || b.kubelet == nil: // then it is the only one
			return 0
		case a.kubelet.LessThan(b.kubelet):
			return -1
		case b.kubelet.LessThan(a.kubelet):
			return 1
		}
		return 0
	})
}
