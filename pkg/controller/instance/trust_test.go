// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

func TestTrust(t *testing.T) {
	old, other := newKey(t, "old"), newKey(t, "other")
	recorded := func(by v1alpha1.HostKeyTrust, keys ...host.Key) []v1alpha1.HostKeyStatus {
		return recordKeys(nil, keys, by, metav1.NewTime(testNow))
	}
	const spec, firstUse = v1alpha1.TrustedBySpec, v1alpha1.TrustedOnFirstUse

	for _, test := range []struct {
		name      string
		spec      []string
		status    []v1alpha1.HostKeyStatus
		lost      bool
		presented host.Key
		want      verdict
		wantBy    v1alpha1.HostKeyTrust
	}{
		{name: "nothing is known", want: verdictAsk},
		{name: "first use", presented: old, want: verdictRecord},
		{name: "restored, not presented yet", lost: true, want: verdictAsk},
		{name: "restored, nobody says which key", lost: true, presented: old, want: verdictConfirm},
		{name: "restored, and pinned", lost: true, spec: []string{old.String()}, presented: old, want: verdictMatch, wantBy: spec},
		{name: "recorded, not presented yet", status: recorded(firstUse, old), want: verdictVerify, wantBy: firstUse},
		{name: "recorded and presented", status: recorded(firstUse, old), presented: old, want: verdictMatch, wantBy: firstUse},
		{name: "changed since first use", status: recorded(firstUse, old), presented: other, want: verdictChanged, wantBy: firstUse},
		{name: "pinned, not presented yet", spec: []string{old.String()}, want: verdictVerify, wantBy: spec},
		{name: "pinned and presented", spec: []string{old.String()}, presented: old, want: verdictMatch, wantBy: spec},
		{name: "one of several that are pinned", spec: []string{old.String(), other.String()}, presented: other, want: verdictMatch, wantBy: spec},
		{name: "not the pinned one", spec: []string{old.String()}, presented: other, want: verdictChanged, wantBy: spec},
		{name: "the spec takes the trust of the recorded key away", spec: []string{other.String()}, status: recorded(firstUse, old), presented: old, want: verdictChanged, wantBy: spec},
		{name: "what was pinned stays trusted without the spec", status: recorded(spec, old), presented: old, want: verdictMatch, wantBy: spec},
		{name: "what was pinned and recorded is no first use", status: recorded(spec, old), presented: other, want: verdictChanged, wantBy: spec},
		{name: "a comment after the key does not matter", spec: []string{old.String() + " root@win-1"}, presented: old, want: verdictMatch, wantBy: spec},
		{name: "a key of a type that is not pinned says nothing", spec: []string{newRSAKey(t).String()}, presented: old, want: verdictVerify, wantBy: spec},
		{name: "an unreadable pin trusts nothing", spec: []string{old.String(), "ssh-ed25519 AAAA"}, presented: old, want: verdictUnusable},
		{name: "an unreadable record trusts nothing", status: []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Key: "!"}}, presented: old, want: verdictUnusable},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := trust(test.spec, test.status, test.lost, test.presented)
			if got.verdict != test.want || got.by != test.wantBy {
				t.Errorf("got verdict %d by %q, want %d by %q", got.verdict, got.by, test.want, test.wantBy)
			}
			if (got.err != nil) != (test.want == verdictUnusable) {
				t.Errorf("got error %v", got.err)
			}
		})
	}
}

func TestRecordKeysKeepsWhenAKeyWasFirstSeen(t *testing.T) {
	before, now := metav1.NewTime(testNow.Add(-time.Hour)), metav1.NewTime(testNow)
	old, other := newKey(t, "old"), newKey(t, "other")
	recorded := recordKeys(nil, []host.Key{old}, v1alpha1.TrustedOnFirstUse, before)

	got := recordKeys(recorded, []host.Key{other, old, other}, v1alpha1.TrustedBySpec, now)

	want := []v1alpha1.HostKeyStatus{
		{Type: "ssh-ed25519", Fingerprint: other.Fingerprint(), Key: other.String()[len("ssh-ed25519 "):], FirstSeen: now, TrustedBy: v1alpha1.TrustedBySpec},
		{Type: "ssh-ed25519", Fingerprint: old.Fingerprint(), Key: old.String()[len("ssh-ed25519 "):], FirstSeen: before, TrustedBy: v1alpha1.TrustedBySpec},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
