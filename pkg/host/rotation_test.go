// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// withKey are credentials with a key, or with a password alone.
func withKey(t *testing.T, password string) credentials {
	t.Helper()
	if password != "" {
		return credentials{id: "of " + password, password: password}
	}
	signer := hosttest.NewKey(t)
	id := hostssh.Fingerprint(signer.PublicKey())
	return credentials{id: id, identities: []identity{{of: id, file: keyPrivateKey, signer: signer}}}
}

// together are credentials with the key of the first and, as further keys, those of the others, all of which have certificates
// that are valid until a time, if that is not zero.
func together(t *testing.T, until time.Time, of ...credentials) credentials {
	t.Helper()
	out := credentials{id: "of " + of[0].id}
	for n, c := range of {
		i := c.identities[0]
		i.of = out.id
		if n > 0 {
			i.file = fmt.Sprintf("private-key-%d.pem", n)
		}
		if !until.IsZero() {
			i.certificate = signed(t, i.signer, func(c *ssh.Certificate) { c.ValidBefore = uint64(until.Unix()) })
		}
		out.identities = append(out.identities, i)
	}
	return out
}

func TestOffered(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	current, a, b, c, d, e := withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, ""), withKey(t, "")
	name := func(c credentials) string { return c.identities[0].fingerprint() }
	keys := func(credentials ...credentials) (out []string) {
		for _, c := range credentials {
			out = append(out, name(c))
		}
		return out
	}
	accepts := func(c credentials) *v1alpha1.CredentialsStatus {
		return &v1alpha1.CredentialsStatus{KeyFingerprint: name(c)}
	}
	cert := func(c credentials) string { return "certificate of " + name(c) }
	for _, test := range []struct {
		name     string
		current  credentials
		former   []credentials
		known    *v1alpha1.CredentialsStatus
		want     []string
		password string
	}{
		{"nothing was kept", current, nil, nil, keys(current), ""},
		{"new, then old", current, []credentials{a, b}, nil, keys(current, a, b), ""},
		{"what the host had comes before others", current, []credentials{a, b}, accepts(b), keys(current, b, a), ""},
		{"no more than a server takes", current, []credentials{a, b, c, d, e}, accepts(e), keys(current, e, a, b, c), ""},
		{"a password that was kept", current, []credentials{withKey(t, "first"), withKey(t, "second"), a}, nil, keys(current, a), "first"},
		{"several, in their order", together(t, time.Time{}, current, a, b), nil, nil, keys(current, a, b), ""},
		{"of several what it has accepted first", together(t, time.Time{}, current, a, b), []credentials{c}, accepts(b), keys(b, current, a, c), ""},
		{"a former one that it had before further ones", together(t, time.Time{}, current, a, b), []credentials{c, d}, accepts(d), keys(current, d, a, b, c), ""},
		{"a certificate, then the key", together(t, at.Add(time.Second), current), []credentials{a}, nil, []string{cert(current), name(current), name(a)}, ""},
		{"an expired one is not tried", together(t, at, current), nil, nil, keys(current), ""},
		{"with one place left the key, which a host may have that does not know the authority", current, []credentials{a, b, c, together(t, at.Add(time.Second), d), e}, nil, keys(current, a, b, c, d), ""},
		{"each counts", together(t, at.Add(time.Second), current, a), []credentials{together(t, at.Add(time.Second), b)}, accepts(b), []string{cert(current), name(current), cert(b), name(b), name(a)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := offered(test.current, test.former, test.known, at)
			var fingerprints []string
			for _, s := range got.Signers {
				fingerprint := hostssh.Fingerprint(s.PublicKey())
				if _, ok := s.PublicKey().(*ssh.Certificate); ok {
					fingerprint = "certificate of " + fingerprint
				}
				fingerprints = append(fingerprints, fingerprint)
			}
			if diff := cmp.Diff(test.want, fingerprints); diff != "" || got.Password != test.password {
				t.Errorf("password %q, keys (-want +got)\n%s", got.Password, diff)
			}
			if others := slices.ContainsFunc(test.former, func(c credentials) bool { return len(c.identities) > 0 }); others == (got.ID == test.current.id) && test.name != "an expired one is not tried" {
				t.Errorf("connections with others are shared: %s", got.ID)
			}
		})
	}
	before, after := offered(together(t, at, current), nil, nil, at.Add(-time.Second)), offered(together(t, at, current), nil, nil, at)
	if before.ID == after.ID {
		t.Error("a connection is used after its certificate has expired")
	}
}

// keepOne is what is kept of the data of a Secret with one key.
func keepOne(t *testing.T, data map[string][]byte) KeptCredential {
	t.Helper()
	kept, err := new(CredentialCache).Keep(data)
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	return kept[0]
}

// TestFormerKeys: what is kept is read for hosts that may need it, and for no others.
func TestFormerKeys(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	was := s.Secrets[hostsite.ClusterCredentials.String()]
	former := keepOne(t, was)
	private, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	is := map[string][]byte{"private-key.pem": private, "password": []byte("of the new one")}
	current := keepOne(t, is)
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
		{"what is kept may not be read", func() { s.Secrets[kept], s.connector.readings.of = nil, nil }, v1alpha1.WindowsInstanceStatus{}, hostssh.ReasonCredentialsRefused},
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
	r, err := s.connector.Rotation(t.Context(), s.Instance, Peer{})
	if err != nil || len(r.Former) != 1 || r.Former[0].Fingerprint() != former.Fingerprint || r.Kept || len(r.Login.Credential.Signers) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	s.Secrets[kept] = map[string][]byte{"cloud-private-key": []byte(`{"credentials":[{"data":{"private-key.pem":"c2VjcmV0!"`)}
	if _, err := s.connector.Login(t.Context(), s.Instance); err == nil || !strings.Contains(err.Error(), kept+": key cloud-private-key") || strings.Contains(err.Error(), "c2Vj") {
		t.Errorf("what was kept is no JSON: %v", err)
	}
	away := New(Options{Pool: s.Pool, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials, ReadSecret: func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		if name == KeptSecret {
			return nil, errors.New("the API server is away")
		}
		return s.Secrets.Read(ctx, namespace, name)
	}})
	if _, err := away.Login(t.Context(), s.Instance); err == nil || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("got %v", err)
	}
	if _, err := away.Rotation(t.Context(), s.Instance, Peer{}); err == nil {
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
	if _, err := s.connector.formerCredentials(ctx, hostsite.ClusterCredentials, credentials{}); !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody waits any more: %v", err)
	}
}

func TestRotationToAPassword(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.Secrets[hostsite.ClusterCredentials.String()] = map[string][]byte{"password": []byte("x")}
	r, err := s.connector.Rotation(t.Context(), s.Instance, Peer{})
	if err != nil || !r.Key.IsZero() || len(r.Former) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	kept := keepOne(t, map[string][]byte{"password": []byte("x"), "other": []byte("y")})
	if kept.Fingerprint != "" || !slices.Equal(kept.Data["password"], []byte("x")) || len(kept.Data) != 1 {
		t.Errorf("kept is %+v", kept)
	}
	if _, err := new(CredentialCache).Keep(map[string][]byte{"other": nil}); err == nil {
		t.Error("nothing is kept as something")
	}
}
