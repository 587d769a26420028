// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// site is one host and what reaches it.
type site struct {
	*hostsite.Site
	connector *Connector
}

// newSite starts a host.
func newSite(t *testing.T, o winhost.InProcessOptions) *site {
	t.Helper()
	return newSiteOn(t, winhost.Options{InProcess: o})
}

// newSiteOn is newSite on any tier.
func newSiteOn(t *testing.T, o winhost.Options) *site {
	t.Helper()
	s := &site{Site: hostsite.New(t, o)}
	s.connector = s.newConnector()
	return s
}

// newConnector is another Connector to the same host.
func (s *site) newConnector() *Connector {
	return New(Options{Pool: s.Pool, ReadSecret: s.Secrets.Read, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials})
}

func TestLogin(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	peer, err := s.connector.Login(t.Context(), s.Instance)
	if err != nil || peer.Address.String() != s.Host.Address() || !slices.Contains(s.Instance.Spec.HostKeys, peer.Key.String()) {
		t.Fatalf("%+v, %v", peer, err)
	}
	addresses, err := s.connector.Resolve(t.Context(), s.Instance)
	if err != nil || len(addresses) != 1 || addresses[0].String() != s.Host.Address() {
		t.Errorf("resolved to %v, %v", addresses, err)
	}
	if err := s.Host.SetAuthorizedKeys(); err != nil {
		t.Fatal(err)
	}
	s.connector.Forget(s.Instance)
	if _, err := s.connector.Login(t.Context(), s.Instance); hostsite.Reason(err) != hostssh.ReasonCredentialsRefused {
		t.Errorf("with a key that is no longer authorized: %v", err)
	}
}

func TestHostKeyPolicy(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	recorded := func(key ssh.PublicKey) []v1alpha1.HostKeyStatus {
		typ, base64, _ := strings.Cut(hostsite.Line(key), " ")
		return []v1alpha1.HostKeyStatus{{Type: typ, Key: base64}}
	}
	other := hosttest.NewKey(t).PublicKey()
	for _, test := range []struct {
		name   string
		spec   []string
		status []v1alpha1.HostKeyStatus
		want   hostssh.Reason
	}{
		{"never met", nil, nil, hostssh.ReasonHostKeyUnknown},
		{"recorded", nil, recorded(s.Host.HostKey()), ""},
		{"recorded is another", nil, recorded(other), hostssh.ReasonHostKeyChanged},
		{"pinned", []string{hostsite.Line(s.Host.HostKey())}, nil, ""},
		{"pinned is another", []string{hostsite.Line(other)}, nil, hostssh.ReasonHostKeyChanged},
		{"one of those pinned", []string{hostsite.Line(other), hostsite.Line(s.Host.HostKey())}, nil, ""},
		{"pinned counts, not recorded", []string{hostsite.Line(other)}, recorded(s.Host.HostKey()), hostssh.ReasonHostKeyChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := s.Instance.DeepCopy()
			instance.Spec.HostKeys, instance.Status.HostKeys = test.spec, test.status
			if _, err := s.connector.Login(t.Context(), instance); hostsite.Reason(err) != test.want || (err == nil) != (test.want == "") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			key, err := s.connector.HostKey(t.Context(), instance)
			if err != nil || key != KeyOf(s.Host.HostKey()) {
				t.Errorf("the host presents %v, %v", key, err)
			}
		})
	}
	bad := s.Instance.DeepCopy()
	bad.Spec.HostKeys = []string{"nonsense"}
	if _, err := s.connector.Login(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a key that is none: %v", err)
	}
	if got := s.Host.Commands(); len(got) > 0 {
		t.Errorf("logging in ran %q", got)
	}
}

func TestCredentials(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	good := s.Secrets["operator/cloud-private-key"]
	_, encrypted, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(encrypted, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(encrypted)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Host.AuthorizeKey(signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	locked := pem.EncodeToMemory(block)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(short)})
	none := map[string][]byte{}
	for _, test := range []struct {
		name    string
		secrets hostsite.Secrets
		ref     string // spec.credentialsSecretRef
		pool    string // spec.poolRef
		want    string // part of the error; empty: logged in
	}{
		{"cluster-wide", hostsite.Secrets{"operator/cloud-private-key": good}, "", "", ""},
		{"of the pool", hostsite.Secrets{"default/of-pool": good}, "", "own-key", ""},
		{"its own before that of the pool", hostsite.Secrets{"default/mine": good, "default/of-pool": none}, "mine", "own-key", ""},
		{"pool without, so cluster-wide", hostsite.Secrets{"operator/cloud-private-key": good}, "", "plain", ""},
		{"pool cannot be read", hostsite.Secrets{"operator/cloud-private-key": good}, "", "broken", "storage is down"},
		{"encrypted", hostsite.Secrets{"default/mine": {"private-key.pem": locked, "passphrase": []byte("open sesame")}}, "mine", "", ""},

		{"missing", hostsite.Secrets{}, "mine", "", "Secret default/mine: not found"},
		{"of the pool is missing", hostsite.Secrets{"operator/cloud-private-key": good}, "", "own-key", "Secret default/of-pool: not found"},
		{"its own is missing: no fall back to another", hostsite.Secrets{"operator/cloud-private-key": good}, "mine", "", "Secret default/mine: not found"},
		{"pool that is not there: no fall back to the cluster-wide key", hostsite.Secrets{"operator/cloud-private-key": good}, "", "gone", "Secret of pool default/gone: the pool does not exist"},
		{"forbidden", hostsite.Secrets{"default/mine": nil}, "mine", "", "Secret default/mine: may not be read: bind the ClusterRole windows-credentials-reader in namespace default"},
		{"forbidden in the namespace of the programs", hostsite.Secrets{"operator/cloud-private-key": nil}, "", "", "kubectl create role windows-secret-cloud-private-key -n operator --verb=get --resource=secrets --resource-name=cloud-private-key && kubectl create rolebinding windows-secret-cloud-private-key -n operator --role=windows-secret-cloud-private-key --serviceaccount=operator:windows-apiserver --serviceaccount=operator:windows-controller"},
		{"empty", hostsite.Secrets{"default/mine": none}, "mine", "", "Secret default/mine: has neither the key private-key.pem nor the key password"},
		{"no key", hostsite.Secrets{"default/mine": {"private-key.pem": []byte("s3cret")}}, "mine", "", "not a private key"},
		{"passphrase missing", hostsite.Secrets{"default/mine": {"private-key.pem": locked}}, "mine", "", "passphrase"},
		{"passphrase wrong", hostsite.Secrets{"default/mine": {"private-key.pem": locked, "passphrase": []byte("s3cret")}}, "mine", "", "passphrase"},
		{"weak", hostsite.Secrets{"default/mine": {"private-key.pem": weak}}, "mine", "", "at least 2048"},
	} {
		t.Run(test.name, func(t *testing.T) {
			connector := s.newConnector()
			connector.options.ReadSecret = test.secrets.Read
			instance := s.Instance.DeepCopy()
			if test.ref != "" {
				instance.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: test.ref}
			}
			if test.pool != "" {
				instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: test.pool}
			}
			before := s.Pool.Stats().Connections
			_, err := connector.Login(t.Context(), instance)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q tells the secret", err)
			}
			var credentials *CredentialsError
			if test.pool != "broken" && !errors.As(err, &credentials) {
				t.Errorf("got a %T", err)
			}
			if after := s.Pool.Stats().Connections; after > before {
				t.Error("the host was called without credentials")
			}
		})
	}
}

// TestSecretThatCannotBeRead: whose it is and why is said, and nothing is tried without it.
func TestSecretThatCannotBeRead(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	down := errors.New("storage is down")
	s.connector.options.ReadSecret = func(context.Context, string, string) (*corev1.Secret, error) { return nil, down }
	_, err := s.connector.Login(t.Context(), s.Instance)
	var credentials *CredentialsError
	if !errors.As(err, &credentials) || credentials.Secret != "operator/cloud-private-key" || !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	if n := s.Pool.Stats().Dials; n > 0 {
		t.Errorf("the host was called %d times", n)
	}
}

// TestCredentialsAreKept: a key is decrypted once, and what is kept of Secrets that are gone is bounded.
func TestCredentialsAreKept(t *testing.T) {
	private, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var cache CredentialCache
	parse := func(data map[string][]byte) credentials {
		t.Helper()
		parsed, err := cache.parse(data)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	key := map[string][]byte{"private-key.pem": private}
	first := parse(key)
	parse(map[string][]byte{"password": []byte("another")})
	if again := parse(key); again.identities[0].signer != first.identities[0].signer {
		t.Error("the key was read again")
	}
	most := 0
	for i := range 2 * maxCredentials {
		password := fmt.Sprint(i)
		if got := parse(map[string][]byte{"password": []byte(password)}); got.password != password {
			t.Fatalf("got the password %q, want %q", got.password, password)
		}
		most = max(most, len(cache.byID))
	}
	for i := range 2 * maxCredentials {
		wrong := map[string][]byte{"private-key.pem": fmt.Appendf(nil, "wrong %d", i)}
		if _, err := cache.parse(wrong); err == nil || cache.failed[digest(wrong)] == nil || len(cache.failed) > maxCredentials {
			t.Fatalf("%d failures are kept, %v", len(cache.failed), err)
		}
		if _, err := cache.parse(wrong); err == nil {
			t.Fatal("what failed is taken for a credential")
		}
	}
	if most != maxCredentials {
		t.Errorf("at most %d are kept, want %d", most, maxCredentials)
	}
}

// TestCredentialID proves that a changed Secret does not use connections of the old one.
func TestCredentialID(t *testing.T) {
	one, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, data := range []map[string][]byte{
		{"password": []byte("a")},
		{"password": []byte("b")},
		{"password": []byte("a"), "passphrase": []byte("x")},
		{"password": []byte("ax")},
		{"passphrase": []byte("a"), "password": []byte("x")},
		{"password": []byte("a"), "private-key.pem": one},
		{"password": []byte("a"), "private-key.pem": two},
		{"password": []byte("a"), "private-key.pem": two, "private-key-old.pem": one},
		{"password": []byte("a"), "private-key.pem": one, "private-key-old.pem": two},
		{"private-key.pem": one, "private-key.pem-cert.pub": certificateOf(t, one, nil)},
		{"private-key.pem": one, "private-key.pem-cert.pub": certificateOf(t, one, nil)}, // a renewed one
	} {
		parsed, err := parseCredentials(data)
		if err != nil {
			t.Fatal(err)
		}
		if seen[parsed.id] {
			t.Errorf("%v has the ID of another content", data)
		}
		seen[parsed.id] = true
	}
	first, _ := parseCredentials(map[string][]byte{"password": []byte("a")})
	again, _ := parseCredentials(map[string][]byte{"password": []byte("a"), "unrelated": []byte("y"), "private-key.pem.pub": []byte("z"), "private-key-old.pem": nil})
	if first.id != again.id {
		t.Error("a key of no concern changes the ID")
	}
}

func TestKey(t *testing.T) {
	public := hosttest.NewKey(t).PublicKey()
	line := hostsite.Line(public)
	key, err := ParseKey(line + " administrator@console")
	if err != nil {
		t.Fatal(err)
	}
	typ, base64, _ := strings.Cut(line, " ")
	fingerprint := ssh.FingerprintSHA256(public)
	if key.Type() != typ || key.Base64() != base64 || key.Fingerprint() != fingerprint || key.String() != line || key.Describe() != typ+" "+fingerprint {
		t.Errorf("got %+v for %s", key, line)
	}
	if key.IsZero() || !KeyOf(nil).IsZero() {
		t.Errorf("%v and no key are taken for each other", key)
	}
	if _, err := ParseKey("ssh-ed25519 nonsense"); err == nil {
		t.Error("a key that is none was read")
	}
	if same, err := ParsePresentable(base64); err != nil || same != key {
		t.Errorf("got %v, %v", same, err)
	}
	for _, none := range []string{"", "nonsense", line} {
		if key, err := ParsePresentable(none); err == nil {
			t.Errorf("%q is %v", none, key)
		}
	}
}

// TestTrace: what is missing for a login is said, and the way is tried as far as it goes without.
func TestTrace(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	down := errors.New("storage is down")
	for _, tt := range []struct {
		name       string
		keys       []string
		secret     error
		keysErr    string // part of it
		want       hostssh.Layer
		wantReason hostssh.Reason
	}{
		{"everything", s.Instance.Spec.HostKeys, nil, "", hostssh.LayerSession, ""},
		{"no credentials", s.Instance.Spec.HostKeys, down, "", hostssh.LayerHostKey, ""},
		{"keys that cannot be read", []string{"nonsense"}, nil, `"nonsense" cannot be read`, hostssh.LayerHostKey, hostssh.ReasonHostKeyUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			connector := s.newConnector()
			if tt.secret != nil {
				connector.options.ReadSecret = func(context.Context, string, string) (*corev1.Secret, error) { return nil, tt.secret }
			}
			instance := s.Instance.DeepCopy()
			instance.Spec.HostKeys = tt.keys
			trace := connector.Trace(t.Context(), instance)
			defer trace.Close()
			last := trace.Steps[len(trace.Steps)-1]
			if last.Layer != tt.want || hostsite.Reason(last.Err) != tt.wantReason || (last.Err == nil) != (tt.wantReason == "") {
				t.Errorf("it came to %s: %v", last.Layer, last.Err)
			}
			if !errors.Is(trace.CredentialErr, tt.secret) || (trace.CredentialErr == nil) != (tt.secret == nil) || trace.CredentialDuration <= 0 {
				t.Errorf("credentials: %v after %s", trace.CredentialErr, trace.CredentialDuration)
			}
			if (trace.KeysErr == nil) != (tt.keysErr == "") || tt.keysErr != "" && !strings.Contains(trace.KeysErr.Error(), tt.keysErr) {
				t.Errorf("keys: %v", trace.KeysErr)
			}
			if (trace.Pool != nil) != (tt.want == hostssh.LayerSession) || trace.Target.Address != s.Host.Address() {
				t.Errorf("the trace to %s has the pool %v", trace.Target.Endpoint(), trace.Pool)
			}
		})
	}
}

// TestPublicKey: it is that of the key with which hosts are logged in to.
func TestPublicKey(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	data := s.Secrets["operator/cloud-private-key"]
	signer, err := ssh.ParsePrivateKey(data["private-key.pem"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := PublicKey(data)
	if err != nil || key != KeyOf(signer.PublicKey()) {
		t.Errorf("got %v, %v", key, err)
	}
	for want, data := range map[string]map[string][]byte{
		"has no key private-key.pem":                           {"password": []byte("s3cret")},
		"has neither the key private-key.pem nor the key pass": {},
		"not a private key":                                    {"private-key.pem": []byte("s3cret")},
	} {
		if key, err := PublicKey(data); err == nil || !key.IsZero() || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v, %v, want %q", key, err, want)
		}
	}
}
