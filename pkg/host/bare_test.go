// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// TestLoginBare: what a real sshd makes of the key of a Secret by itself, whatever else the Secret has that it accepts.
func TestLoginBare(t *testing.T) {
	authority := hosttest.NewKey(t)
	private, signer, fingerprint := newPrivateKey(t)
	further, furtherSigner, furtherFingerprint := newPrivateKey(t)
	s := newSite(t, winhost.InProcessOptions{})
	for _, test := range []struct {
		name     string
		sshd     opensshd.Options
		accepted string // otherwise
		refused  bool
	}{
		{name: "the key", sshd: opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}, accepted: fingerprint},
		{name: "its certificate alone", sshd: opensshd.Options{UserAuthority: authority.PublicKey()}, accepted: fingerprint, refused: true},
		{name: "a further key alone", sshd: opensshd.Options{AuthorizedKeys: []ssh.PublicKey{furtherSigner.PublicKey()}}, accepted: furtherFingerprint, refused: true},
		{name: "a further key that comes first", sshd: opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey(), furtherSigner.PublicKey()}}, accepted: furtherFingerprint},
	} {
		t.Run(test.name, func(t *testing.T) {
			sshd := opensshd.Start(t, test.sshd)
			s.Secrets["operator/cloud-private-key"] = map[string][]byte{"private-key.pem": private, "private-key-more.pem": further, "private-key.pem-cert.pub": certificateBy(t, authority, signer.PublicKey(), func(c *ssh.Certificate) { c.ValidPrincipals = []string{sshd.User} })}
			instance := s.Instance.DeepCopy()
			instance.Name = strings.ReplaceAll(test.name, " ", "-")
			instance.Spec.Address, instance.Spec.Port, instance.Spec.Username, instance.Spec.HostKeys = sshd.Host, int32(sshd.Port), sshd.User, []string{hostsite.Line(sshd.HostKey())}
			instance.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: test.accepted}
			if peer, err := s.connector.Login(t.Context(), instance); err != nil || peer.Accepted != test.accepted {
				t.Errorf("otherwise it accepts %+v, %v", peer, err)
			}
			peer, err := s.connector.LoginBare(t.Context(), instance, hostsite.ClusterCredentials)
			if err != nil || (peer == nil) != test.refused || peer != nil && (peer.Accepted != fingerprint || peer.Certified || peer.Key.String() != instance.Spec.HostKeys[0]) {
				t.Errorf("got %+v, %v", peer, err)
			}
		})
	}
}

// TestLoginBareBehindBastion: a bastion that refuses its own credentials says nothing about what the host makes of the key.
func TestLoginBareBehindBastion(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	instance := s.Instance.DeepCopy()
	instance.Spec.Bastion = bastionOf(t, s)
	wrong, _, _ := newPrivateKey(t)
	s.Secrets["default/jump"] = map[string][]byte{"private-key.pem": wrong}
	peer, err := s.connector.LoginBare(t.Context(), instance, hostsite.ClusterCredentials)
	if failed, ok := hostssh.AsError(err); !ok || failed.Layer != hostssh.LayerBastion || failed.Reason != hostssh.ReasonCredentialsRefused {
		t.Errorf("got %+v, %v", peer, err)
	}
}

// TestLoginBareAnew: what the host accepted a moment ago says nothing.
func TestLoginBareAnew(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if peer, err := s.connector.LoginBare(t.Context(), s.Instance, hostsite.ClusterCredentials); err != nil || peer == nil {
		t.Fatal(peer, err)
	}
	if err := s.Host.SetAuthorizedKeys(); err != nil {
		t.Fatal(err)
	}
	if peer, err := s.connector.LoginBare(t.Context(), s.Instance, hostsite.ClusterCredentials); err != nil || peer != nil {
		t.Errorf("got %+v, %v", peer, err)
	}
}

// TestBareKey: the key of a Secret is known without its private half; a Secret without a key has none, and an encrypted one is of no use
// to who knows no passphrase.
func TestBareKey(t *testing.T) {
	_, raw, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(raw, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	plain, _, fingerprint := newPrivateKey(t)
	name := hostsite.ClusterCredentials
	for _, test := range []struct {
		name    string
		data    map[string][]byte
		want    string
		wantErr string
	}{
		{name: "a key", data: map[string][]byte{"private-key.pem": plain, "passphrase": []byte("of nothing")}, want: fingerprint},
		{name: "a password", data: map[string][]byte{"password": []byte("x")}},
		{name: "encrypted", data: map[string][]byte{"private-key.pem": pem.EncodeToMemory(block), "passphrase": []byte("open sesame")}, wantErr: "key private-key.pem is encrypted, and only programs that know its passphrase can use it: " +
			"take the passphrase off and write the key into the Secret again: ssh-keygen -p -N '' -f private-key.pem"},
		{name: "none", wantErr: "not found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, winhost.InProcessOptions{})
			delete(s.Secrets, name.String())
			if test.data != nil {
				s.Secrets[name.String()] = test.data
			}
			got, err := s.connector.BareKey(t.Context(), name)
			_, typed := errors.AsType[*CredentialsError](err)
			if got.Fingerprint() != test.want || typed != (test.wantErr != "") || typed && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %s, %v", got, err)
			}
			value, err := s.connector.EncryptUsername(t.Context(), name, "Administrator")
			if _, typed := errors.AsType[*CredentialsError](err); typed != (test.want == "") {
				t.Errorf("a user is encrypted as %q, %v", value, err)
			}
			if user, _ := takeover.DecryptUsername(value, test.data["private-key.pem"]); test.want != "" && user != "Administrator" {
				t.Errorf("WMCO reads user %q", user)
			}
			if peer, _ := s.connector.LoginBare(t.Context(), s.Instance, name); peer != nil {
				t.Error("the host accepts it")
			}
		})
	}
}
