// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// certify is the certificate of a key for a user, signed by an authority, as ssh-keygen writes it to a file.
func certify(t *testing.T, authority ssh.Signer, key ssh.PublicKey, user string, change func(*ssh.Certificate)) []byte {
	t.Helper()
	c := &ssh.Certificate{
		Key: key, CertType: ssh.UserCert, KeyId: "test", ValidPrincipals: []string{user},
		ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
	}
	if change != nil {
		change(c)
	}
	must(t, c.SignCert(rand.Reader, authority))
	return append(ssh.MarshalAuthorizedKey(c), '\n')
}

func TestParseCertificate(t *testing.T) {
	authority, key, other := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoED25519)
	good := certify(t, authority, key.PublicKey(), "Administrator", nil)
	for _, test := range []struct {
		name string
		text []byte
		want string // part of the error
	}{
		{"as it is to be", good, ""},
		{"without the end of the line", good[:len(good)-2], ""},
		{"empty", nil, "no line with a certificate"},
		{"nonsense", []byte("s3cret"), "no line with a certificate"},
		{"of a host", certify(t, authority, key.PublicKey(), "Administrator", func(c *ssh.Certificate) { c.CertType = ssh.HostCert }), "certificate of a host; sign the key again, without -h"},
		{"of another key", certify(t, authority, other.PublicKey(), "Administrator", nil), "that of key " + hostssh.Fingerprint(other.PublicKey()) + ", while the private key is " + hostssh.Fingerprint(key.PublicKey())},
		{"a public key", ssh.MarshalAuthorizedKey(key.PublicKey()), "it is a public key; the certificate is in the file -cert.pub"},
		{"two", slices.Concat(good, good), "more than one line"},
		{"with a command", certify(t, authority, key.PublicKey(), "Administrator", func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "cmd"} }), "force-command"},
		{"too long", slices.Concat(good, bytes.Repeat([]byte(" "), 16<<10)), "more than 16384 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := hostssh.ParseCertificate(test.text, key)
			if test.want == "" {
				if err != nil || hostssh.Fingerprint(c.Signer().PublicKey()) != ssh.FingerprintSHA256(key.PublicKey()) {
					t.Errorf("got %v, %v", c, err)
				}
				return
			}
			if !errors.Is(err, hostssh.ErrCertificate) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCertificateValidity(t *testing.T) {
	authority, key := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoED25519)
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	sec := func(after time.Duration) uint64 { return uint64(at.Add(after).Unix()) }
	for _, test := range []struct {
		name          string
		after, before uint64
		begun, over   bool
		until         time.Time
	}{
		{"valid", sec(0), sec(time.Second), true, false, at.Add(time.Second)},
		{"expired", sec(-time.Hour), sec(0), true, true, at},
		{"not valid yet", sec(time.Second), sec(time.Hour), false, false, at.Add(time.Hour)},
		{"for ever", 0, ssh.CertTimeInfinity, true, false, time.Time{}},
		{"longer than times go", 0, ssh.CertTimeInfinity - 1, true, false, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
	} {
		c, err := hostssh.ParseCertificate(certify(t, authority, key.PublicKey(), "Administrator", func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = test.after, test.before }), key)
		if err != nil {
			t.Fatal(err)
		}
		if c.Begun(at) != test.begun || c.Expired(at) != test.over || !c.Before().Equal(test.until) || !c.After().Equal(time.Unix(int64(test.after), 0)) {
			t.Errorf("%s: begun %v, expired %v, from %s to %s", test.name, c.Begun(at), c.Expired(at), c.After(), c.Before())
		}
		if got := c.Principals(); !slices.Equal(got, []string{"Administrator"}) {
			t.Errorf("it is for %v", got)
		}
	}
}

// TestSSHDCertificates: what a real sshd makes of certificates, and of keys beside them.
func TestSSHDCertificates(t *testing.T) {
	authority, key := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoED25519)
	s := opensshd.Start(t, opensshd.Options{UserAuthority: authority.PublicKey()})
	p := newPool(t, hostssh.Options{})
	rsaKey, stranger := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoED25519)
	with := func(key, authority ssh.Signer, user string, change func(*ssh.Certificate)) ssh.Signer {
		t.Helper()
		c, err := hostssh.ParseCertificate(certify(t, authority, key.PublicKey(), user, change), key)
		if err != nil {
			t.Fatal(err)
		}
		return c.Signer()
	}
	good := with(key, authority, s.User, nil)
	expired := with(key, authority, s.User, func(c *ssh.Certificate) { c.ValidBefore = c.ValidAfter + 60 })
	for _, test := range []struct {
		name      string
		signers   []ssh.Signer
		accepted  ssh.Signer // nil: refused
		certified bool
	}{
		{"accepted", []ssh.Signer{good, key}, key, true},
		{"the key alone is not", []ssh.Signer{key}, nil, false},
		{"RSA", []ssh.Signer{with(rsaKey, authority, s.User, nil)}, rsaKey, true},
		{"expired", []ssh.Signer{expired, key}, nil, false},
		{"expired, and another key", []ssh.Signer{expired, key, s.Signer}, s.Signer, false},
		{"of another user", []ssh.Signer{with(key, authority, "somebody", nil), key}, nil, false},
		{"of another authority", []ssh.Signer{with(key, stranger, s.User, nil), key, s.Signer}, s.Signer, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := sshdTarget(s)
			target.Credential = hostssh.Credential{ID: test.name, Signers: test.signers, Remark: "Look at the certificate."}
			peer, err := p.Login(testContext(t), target)
			if test.accepted == nil {
				wantError(t, err, hostssh.LayerAuth, hostssh.ReasonCredentialsRefused)
				if !strings.HasSuffix(err.Error(), ". Look at the certificate.") {
					t.Errorf("%q does not have the remark", err)
				}
				return
			}
			if err != nil || hostssh.Fingerprint(peer.Accepted) != hostssh.Fingerprint(test.accepted.PublicKey()) || peer.Accepted.Type() != test.accepted.PublicKey().Type() || peer.Certified != test.certified {
				t.Errorf("got %+v, %v", peer, err)
			}
		})
	}
	target := sshdTarget(s)
	target.Credential = hostssh.Credential{ID: "traced", Signers: []ssh.Signer{good}}
	trace := p.Trace(testContext(t), target, hostssh.TraceOptions{})
	defer trace.Close()
	if !trace.Certified || hostssh.Fingerprint(trace.Accepted) != hostssh.Fingerprint(key.PublicKey()) {
		t.Errorf("a trace says %v, certified: %v", trace.Accepted, trace.Certified)
	}
}
