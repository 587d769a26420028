// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// withKey is a credential with a key, or with a password alone.
func withKey(t *testing.T, password string) hostssh.Credential {
	t.Helper()
	if password != "" {
		return hostssh.Credential{ID: "of " + password, Password: password}
	}
	key := hosttest.NewKey(t)
	return hostssh.Credential{ID: hostssh.Fingerprint(key.PublicKey()), Signers: []hostssh.Signer{key}}
}

func TestOffered(t *testing.T) {
	current, a, b, c, d, e := withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, "")
	keys := func(credentials ...hostssh.Credential) (out []string) {
		for _, c := range credentials {
			out = append(out, fingerprintOf(c))
		}
		return out
	}
	for _, test := range []struct {
		name     string
		former   []hostssh.Credential
		known    *v1alpha1.CredentialsStatus
		want     []string
		password string
	}{
		{"nothing was kept", nil, nil, keys(current), ""},
		{"new, then old", []hostssh.Credential{a, b}, nil, keys(current, a, b), ""},
		{"what the host had comes before others", []hostssh.Credential{a, b}, &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprintOf(b)}, keys(current, b, a), ""},
		{"no more than a server takes", []hostssh.Credential{a, b, c, d, e}, &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprintOf(e)}, keys(current, e, a, b, c), ""},
		{"a password that was kept", []hostssh.Credential{withKey(t, "first"), withKey(t, "second"), a}, nil, keys(current, a), "first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := offered(current, test.former, test.known)
			var fingerprints []string
			for _, s := range got.Signers {
				fingerprints = append(fingerprints, hostssh.Fingerprint(s.PublicKey()))
			}
			if diff := cmp.Diff(test.want, fingerprints); diff != "" || got.Password != test.password {
				t.Errorf("password %q, keys (-want +got)\n%s", got.Password, diff)
			}
			if len(test.want) > 1 == (got.ID == current.ID) {
				t.Errorf("connections with others are shared: %s", got.ID)
			}
		})
	}
}

// TestFormerKeys: what is kept is read for hosts that may need it, and for no others.
func TestFormerKeys(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	was := s.Secrets[hostsite.ClusterCredentials.String()]
	former, err := new(CredentialCache).Keep(was)
	if err != nil {
		t.Fatal(err)
	}
	private, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	is := map[string][]byte{"private-key.pem": private, "password": []byte("of the new one")}
	current, err := new(CredentialCache).Keep(is)
	if err != nil {
		t.Fatal(err)
	}
	s.Secrets[hostsite.ClusterCredentials.String()] = is
	const kept = "operator/" + KeptSecret
	keep := func(credentials ...KeptCredential) {
		t.Helper()
		text, err := Kept{Credentials: credentials}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		s.Secrets[kept] = map[string][]byte{"cloud-private-key": text, "another": []byte("nonsense")}
	}
	broken := KeptCredential{Data: map[string][]byte{"private-key.pem": []byte("nonsense")}}
	keep(current, broken, former)
	refused := []metav1.Condition{{Type: v1alpha1.ConditionAuthenticated, Reason: v1alpha1.ReasonCredentialsRefused}}
	for _, test := range []struct {
		name   string
		change func()
		status v1alpha1.WindowsInstanceStatus
		want   hostssh.Reason
	}{
		{"nothing is known of the host", nil, v1alpha1.WindowsInstanceStatus{}, ""},
		{"it has the former key", nil, v1alpha1.WindowsInstanceStatus{Credentials: &v1alpha1.CredentialsStatus{KeyFingerprint: former.Fingerprint}}, ""},
		{"it is known to have the new one", nil, v1alpha1.WindowsInstanceStatus{Credentials: &v1alpha1.CredentialsStatus{KeyFingerprint: current.Fingerprint}}, hostssh.ReasonCredentialsRefused},
		{"it was known to have the new one, and has not", nil, v1alpha1.WindowsInstanceStatus{Credentials: &v1alpha1.CredentialsStatus{KeyFingerprint: current.Fingerprint}, Conditions: refused}, ""},
		{"it is not kept any more", func() { keep(current) }, v1alpha1.WindowsInstanceStatus{}, hostssh.ReasonCredentialsRefused},
		{"nobody is to log in with it", func() { keep(current, former.PublicOnly()) }, v1alpha1.WindowsInstanceStatus{}, hostssh.ReasonCredentialsRefused},
		{"what is kept may not be read", func() { s.Secrets[kept] = nil }, v1alpha1.WindowsInstanceStatus{}, hostssh.ReasonCredentialsRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.change != nil {
				test.change()
			}
			instance := s.Instance.DeepCopy()
			instance.Status = test.status
			s.connector.Forget(instance)
			peer, err := s.connector.Login(t.Context(), instance)
			if hostsite.Reason(err) != test.want || (err == nil) != (test.want == "") {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err == nil && (peer.Accepted != former.Fingerprint || peer.Wanted != current.Fingerprint) {
				t.Errorf("it accepts %s; wanted is %s", peer.Accepted, peer.Wanted)
			}
		})
	}
	// It is removed from hosts all the same; earlier releases kept no public keys.
	former.PublicKey = ""
	keep(current.PublicOnly(), former.PublicOnly(), KeptCredential{PublicKey: "nonsense"})
	r, err := s.connector.Rotation(t.Context(), s.Instance)
	if err != nil || len(r.Former) != 1 || r.Former[0].Fingerprint() != former.Fingerprint || r.Kept || len(r.Login.Credential.Signers) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	s.Secrets[kept] = map[string][]byte{"cloud-private-key": []byte(`{"credentials":[{"data":{"private-key.pem":"c2VjcmV0!"`)}
	if _, err := s.connector.Login(t.Context(), s.Instance); err == nil || !strings.Contains(err.Error(), kept+": key cloud-private-key") || strings.Contains(err.Error(), "c2Vj") {
		t.Errorf("what was kept is no JSON: %v", err)
	}
	away := New(Options{Pool: s.Pool, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials, ReadSecret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
		if name == KeptSecret {
			return nil, errors.New("the API server is away")
		}
		return s.Secrets.Read(ctx, namespace, name)
	}})
	if _, err := away.Login(t.Context(), s.Instance); err == nil || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("got %v", err)
	}
	if _, err := away.Rotation(t.Context(), s.Instance); err == nil {
		t.Error("what is not known is taken for nothing")
	}
}

// TestParseKept: what somebody may have written costs no more than what we write.
func TestParseKept(t *testing.T) {
	many, err := Kept{Credentials: make([]KeptCredential, 1500)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := ParseKept(many); err != nil || len(kept.Credentials) != MaxKept {
		t.Errorf("%d credentials, %v", len(kept.Credentials), err)
	}
	if _, err := ParseKept(append(many, strings.Repeat(" ", MaxKeptBytes)...)); err == nil {
		t.Error("it may have any size")
	}
	s := newSite(t, winhost.InProcessOptions{})
	s.Secrets["operator/"+KeptSecret] = map[string][]byte{"cloud-private-key": many}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.connector.formerCredentials(ctx, hostsite.ClusterCredentials, hostssh.Credential{}); !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody waits any more: %v", err)
	}
}

func TestRotationToAPassword(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.Secrets[hostsite.ClusterCredentials.String()] = map[string][]byte{"password": []byte("x")}
	r, err := s.connector.Rotation(t.Context(), s.Instance)
	if err != nil || !r.Key.IsZero() || len(r.Former) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	kept, err := new(CredentialCache).Keep(map[string][]byte{"password": []byte("x"), "other": []byte("y")})
	if err != nil || kept.Fingerprint != "" || !slices.Equal(kept.Data["password"], []byte("x")) || len(kept.Data) != 1 {
		t.Errorf("kept is %+v, %v", kept, err)
	}
	if _, err := new(CredentialCache).Keep(map[string][]byte{"other": nil}); err == nil {
		t.Error("nothing is kept as something")
	}
}
