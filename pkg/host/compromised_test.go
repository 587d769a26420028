// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// annotated reads Secrets of which one names compromised keys.
func annotated(read func(context.Context, string, string) (*corev1.Secret, error), secret string, compromised ...string) func(context.Context, string, string) (*corev1.Secret, error) {
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		found, err := read(ctx, namespace, name)
		if err == nil && name == secret {
			found.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: strings.Join(compromised, ",")}
		}
		return found, err
	}
}

// TestCompromisedKeys: no host is current with a key of its Secret that is compromised while that has another one, and it is logged
// in to with it only where it may accept nothing else.
func TestCompromisedKeys(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	old := s.Secrets["operator/cloud-private-key"]["private-key.pem"] // which the host accepts
	key, err := PublicKey(s.Secrets["operator/cloud-private-key"])
	if err != nil {
		t.Fatal(err)
	}
	was := key.Fingerprint()
	next, _, is := newPrivateKey(t)
	further := map[string][]byte{"private-key.pem": next, "private-key-old.pem": old}
	known := func(fingerprint string, reason string) v1alpha1.WindowsInstanceStatus {
		return v1alpha1.WindowsInstanceStatus{
			Credentials: &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprint},
			Conditions:  []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Reason: reason}},
		}
	}
	const remove = "remove it: kubectl patch secret cloud-private-key -n operator --type=json -p '[{\"op\":\"remove\",\"path\":\"/data/private-key-old.pem\"}]'."
	for _, test := range []struct {
		name        string
		data        map[string][]byte
		on          string
		compromised []string
		status      v1alpha1.WindowsInstanceStatus
		offered     []string
		wanted      string
		former      []string
		says        string
	}{
		{"none is", further, "cloud-private-key", nil, v1alpha1.WindowsInstanceStatus{}, []string{is, was}, was, nil, ""},
		{"a further one", further, "cloud-private-key", []string{was}, v1alpha1.WindowsInstanceStatus{}, []string{is, was}, is, []string{was}, remove},
		{"by the annotation that is about all Secrets", further, KeptSecret, []string{was}, v1alpha1.WindowsInstanceStatus{}, []string{is, was}, is, []string{was}, remove},
		{"the host is known to accept it", further, "cloud-private-key", []string{was}, known(was, v1alpha1.ReasonLoggedIn), []string{is, was}, is, []string{was}, remove},
		{"the host is known to accept the first", further, "cloud-private-key", []string{was}, known(is, v1alpha1.ReasonLoggedIn), []string{is}, is, []string{was}, remove},
		{"the host does not accept the first any more", further, "cloud-private-key", []string{was}, known(is, v1alpha1.ReasonCredentialsRefused), []string{is, was}, is, []string{was}, remove},
		{"the first one", map[string][]byte{"private-key.pem": old, "private-key-b.pem": next}, "cloud-private-key", []string{was}, v1alpha1.WindowsInstanceStatus{}, []string{is, was}, is, []string{was}, "in private-key.pem: put a new key in its place"},
		{"the only one", map[string][]byte{"private-key.pem": old}, "cloud-private-key", []string{was}, v1alpha1.WindowsInstanceStatus{}, []string{was}, was, nil, "in private-key.pem: put a new key in its place"},
		{"all of them", further, "cloud-private-key", []string{is, was}, v1alpha1.WindowsInstanceStatus{}, []string{is, was}, was, nil, remove},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Secrets["operator/cloud-private-key"] = test.data
			s.Secrets["operator/"+KeptSecret] = map[string][]byte{}
			s.connector.options.ReadSecret = annotated(s.Secrets.Read, test.on, test.compromised...)
			instance := s.Instance.DeepCopy()
			instance.Status = test.status
			target, err := s.connector.Target(t.Context(), instance)
			if err != nil {
				t.Fatal(err)
			}
			var offered []string
			for _, signer := range target.Credential.Signers {
				offered = append(offered, hostssh.Fingerprint(signer.PublicKey()))
			}
			if diff := cmp.Diff(test.offered, offered); diff != "" {
				t.Errorf("it is offered (-want +got)\n%s", diff)
			}
			if (target.Credential.Remark == "") != (test.says == "") || !strings.Contains(target.Credential.Remark, test.says) {
				t.Errorf("it says %q", target.Credential.Remark)
			}
			if target.Credential.Warning != target.Credential.Remark { // there are no certificates
				t.Errorf("it warns of %q", target.Credential.Warning)
			}
			if slices.Contains(test.offered, was) {
				peer, err := s.connector.Login(t.Context(), instance)
				if err != nil || peer.Accepted != was || peer.Wanted != test.wanted || !slices.Equal(peer.Loses, test.former) || !strings.Contains(peer.Remark, test.says) {
					t.Errorf("logged in %+v, %v", peer, err)
				}
			}
			r, err := s.connector.Rotation(t.Context(), instance, Peer{Accepted: was})
			if err != nil {
				t.Fatal(err)
			}
			var former []string
			for _, key := range r.Former {
				former = append(former, key.Fingerprint())
			}
			if diff := cmp.Diff(test.former, former); diff != "" || r.Key.Fingerprint() != test.wanted {
				t.Errorf("it gets %s and loses (-want +got)\n%s", r.Key.Fingerprint(), diff)
			}
		})
	}
}

// TestCompromisedConnections: a connection that may have been made with a key is not used any more once that is compromised.
func TestCompromisedConnections(t *testing.T) {
	first, further := withKey(t, ""), withKey(t, "")
	all := together(t, time.Time{}, first, further)
	marked := all.withCompromised(types.NamespacedName{Namespace: "ns", Name: "key"}, []string{further.id})
	ids := []string{offered(all, nil, nil, time.Time{}).ID, offered(marked, nil, nil, time.Time{}).ID, offered(marked.sound(), nil, nil, time.Time{}).ID}
	if slices.Sort(ids); len(slices.Compact(ids)) != 3 {
		t.Errorf("connections are shared: %q", ids)
	}
	certified := together(t, time.Unix(2e9, 0), first, further).withCompromised(types.NamespacedName{Namespace: "ns", Name: "key"}, []string{further.id})
	if want := `"path":"/data/private-key-1.pem"},{"op":"remove","path":"/data/private-key-1.pem-cert.pub"}]'`; !strings.Contains(certified.warning, want) {
		t.Errorf("%q does not say %q", certified.warning, want)
	}
}

// TestSoundPublicKey: new hosts get the first key of a Secret that is not compromised.
func TestSoundPublicKey(t *testing.T) {
	one, _, first := newPrivateKey(t)
	two, _, second := newPrivateKey(t)
	three, _, third := newPrivateKey(t)
	all := map[string][]byte{"private-key.pem": one, "private-key-a.pem": two, "private-key-b.pem": three}
	unusable := map[string][]byte{"private-key.pem": one, "private-key-a.pem": []byte("s3cret")}
	for _, test := range []struct {
		name        string
		data        map[string][]byte
		compromised []string
		want        string
		err         string // part of it
	}{
		{"none is compromised", all, nil, first, ""},
		{"a further one", all, []string{second}, first, ""},
		{"the first one", all, []string{first}, second, ""},
		{"two", all, []string{second, first}, third, ""},
		{"all", all, []string{first, second, third}, "", ""},
		{"the only one", map[string][]byte{"private-key.pem": one}, []string{first}, "", ""},
		{"a further one that is none, and is not needed", unusable, []string{second}, first, ""},
		{"a further one that is none", unusable, []string{first}, "", "key private-key-a.pem: not a private key"},
		{"no first one", map[string][]byte{"private-key-a.pem": two}, nil, "", "has neither the key private-key.pem nor"},
	} {
		got, err := SoundPublicKey(test.data, test.compromised)
		if got.Fingerprint() != test.want || (err == nil) != (test.err == "") {
			t.Errorf("%s: got %q, %v, want %q, %q", test.name, got.Fingerprint(), err, test.want, test.err)
		}
		if err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.err)
		}
	}
}
