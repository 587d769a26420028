// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// verdict is what to make of a host key.
type verdict int

const (
	// verdictAsk: no key is trusted yet and none was presented. Read what the host
	// presents, and do nothing else.
	verdictAsk verdict = iota
	// verdictVerify: keys are trusted, and logging in verifies the host. The presented
	// one is not known, or tells nothing as the host may have another of a trusted type.
	verdictVerify
	// verdictRecord: no key is trusted yet. The presented one is to be recorded
	// before anything else is done on the host.
	verdictRecord
	// verdictMatch: the presented key is trusted.
	verdictMatch
	// verdictChanged: the presented key is not one of those that are trusted. Stop.
	verdictChanged
	// verdictConfirm: which key is trusted was lost, and somebody has to say it. Stop.
	verdictConfirm
	// verdictUnusable: a key that should be trusted cannot be read. Stop.
	verdictUnusable
)

// trustDecision is the answer of [trust].
type trustDecision struct {
	verdict verdict
	// keys are those that are trusted now, before anything is recorded.
	keys []host.Key
	// by says where keys come from.
	by v1alpha1.HostKeyTrust
	// err is set with verdictUnusable.
	err error
}

// trust decides about a host key. The keys of the spec, if there are any, are the
// only ones that are trusted; else those that the status has recorded; else the
// first key that the host presents, unless there was one that is not known any more: lost.
// presented is none when it is not known.
func trust(spec []string, status []v1alpha1.HostKeyStatus, lost bool, presented host.Key) trustDecision {
	var d trustDecision
	field := "spec.hostKeys"
	switch {
	case len(spec) > 0:
		d.by = v1alpha1.TrustedBySpec
	case len(status) > 0:
		field, d.by = "status.hostKeys", status[0].TrustedBy
	case presented.IsZero():
		d.verdict = verdictAsk
		return d
	case lost:
		d.verdict = verdictConfirm
		return d
	default:
		d.verdict = verdictRecord
		return d
	}
	for i, line := range trustedKeys(spec, status) {
		key, err := host.ParseKey(line)
		if err != nil {
			return trustDecision{verdict: verdictUnusable, err: fmt.Errorf("%s[%d] is not a public key of the form \"type base64\": %w", field, i, err)}
		}
		d.keys = append(d.keys, key)
	}
	switch {
	case presented.IsZero(),
		!slices.ContainsFunc(d.keys, func(k host.Key) bool { return k.Type() == presented.Type() }):
		d.verdict = verdictVerify
	case slices.Contains(d.keys, presented):
		d.verdict = verdictMatch
	default:
		d.verdict = verdictChanged
	}
	return d
}

// trustedKeys are the host keys that are trusted, in the form of spec.hostKeys.
func trustedKeys(spec []string, status []v1alpha1.HostKeyStatus) []string {
	if len(spec) > 0 {
		return spec
	}
	lines := make([]string, 0, len(status))
	for _, key := range status {
		lines = append(lines, key.Type+" "+key.Key)
	}
	return lines
}

// recordKeys returns the host keys as the status keeps them. A key that was
// recorded before keeps the time at which it was first seen.
func recordKeys(recorded []v1alpha1.HostKeyStatus, keys []host.Key, by v1alpha1.HostKeyTrust, seen metav1.Time) []v1alpha1.HostKeyStatus {
	var out []v1alpha1.HostKeyStatus
	for _, key := range keys {
		entry := v1alpha1.HostKeyStatus{
			Type:        key.Type(),
			Fingerprint: key.Fingerprint(),
			Key:         key.Base64(),
			FirstSeen:   seen,
			TrustedBy:   by,
		}
		same := func(other v1alpha1.HostKeyStatus) bool { return other.Key == entry.Key }
		if slices.ContainsFunc(out, same) {
			continue
		}
		if i := slices.IndexFunc(recorded, same); i >= 0 {
			entry.FirstSeen = recorded[i].FirstSeen
		}
		out = append(out, entry)
	}
	return out
}
