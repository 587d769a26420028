// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// certificateBy is the certificate of a key, signed by an authority, that does not expire and is for administrator.
func certificateBy(t *testing.T, authority ssh.Signer, key ssh.PublicKey, change func(*ssh.Certificate)) []byte {
	t.Helper()
	c := &ssh.Certificate{Key: key, CertType: ssh.UserCert, ValidPrincipals: []string{"administrator"}, ValidBefore: ssh.CertTimeInfinity}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(c)
}

// certificateOf is one of a private key in PEM, by an authority of its own.
func certificateOf(t *testing.T, private []byte, change func(*ssh.Certificate)) []byte {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return certificateBy(t, hosttest.NewKey(t), signer.PublicKey(), change)
}

// signed is certificateOf, read.
func signed(t *testing.T, signer hostssh.Signer, change func(*ssh.Certificate)) *hostssh.Certificate {
	t.Helper()
	c, err := hostssh.ParseCertificate(certificateBy(t, hosttest.NewKey(t), signer.PublicKey(), change), signer)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newPrivateKey is a private key in PEM, and its fingerprint.
func newPrivateKey(t *testing.T) (private []byte, signer ssh.Signer, fingerprint string) {
	t.Helper()
	private, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return private, signer, ssh.FingerprintSHA256(signer.PublicKey())
}

func TestParseCredentials(t *testing.T) {
	one, _, first := newPrivateKey(t)
	two, _, second := newPrivateKey(t)
	three, _, third := newPrivateKey(t)
	four, _, _ := newPrivateKey(t)
	host := certificateOf(t, one, func(c *ssh.Certificate) { c.CertType = ssh.HostCert })
	for _, test := range []struct {
		name string
		data map[string][]byte
		want string // fingerprints
		err  string // part of it
	}{
		{"several, by name", map[string][]byte{"private-key.pem": one, "private-key-b.pem": two, "private-key-a.pem": three, "private-key-.pem": four, "private-key-c": four}, first + " " + third + " " + second, ""},
		{"with certificates", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": certificateOf(t, one, nil), "private-key-old.pem": two, "private-key-old.pem-cert.pub": certificateOf(t, two, nil)}, first + " certified " + second + " certified", ""},
		{"the same twice", map[string][]byte{"private-key.pem": one, "private-key-old.pem": one}, first, ""},
		{"too many", map[string][]byte{"private-key.pem": one, "private-key-a.pem": two, "private-key-b.pem": three, "private-key-c.pem": four, "private-key.pem-cert.pub": certificateOf(t, one, nil)}, "",
			"has 5 private keys and certificates, and hosts are offered at most 4, as OpenSSH hangs up after six: remove the keys private-key-NAME.pem that no host needs"},
		{"far too many, which are not read", tooMany(), "", "has 1000 private keys"},
		{"no first one", map[string][]byte{"private-key-old.pem": one, "password": []byte("x")}, "", "has the key private-key-old.pem and no key private-key.pem, which is the one that hosts are to accept"},
		{"a further one that is none", map[string][]byte{"private-key.pem": one, "private-key-old.pem": []byte("s3cret")}, "", "key private-key-old.pem: not a private key"},
		{"a certificate without its key", map[string][]byte{"password": []byte("x"), "private-key.pem-cert.pub": host}, "", "has the key private-key.pem-cert.pub and no key private-key.pem"},
		{"of a host", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": host}, "", "key private-key.pem-cert.pub: not a usable user certificate: it is the certificate of a host"},
		{"of another key", map[string][]byte{"private-key.pem": two, "private-key.pem-cert.pub": certificateOf(t, one, nil)}, "", "it is that of key " + first + ", while the private key is " + second},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseCredentials(test.data)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, i := range got.identities {
				keys = append(keys, i.fingerprint())
				if i.certificate != nil {
					keys = append(keys, "certified")
				}
			}
			if keys := strings.Join(keys, " "); keys != test.want {
				t.Errorf("got %q, want %q", keys, test.want)
			}
		})
	}
	if key, err := PublicKey(map[string][]byte{"private-key.pem": one, "private-key-old.pem": []byte("nonsense"), "private-key.pem-cert.pub": host}); err != nil || key.Fingerprint() != first {
		t.Errorf("new hosts get %v, %v", key, err)
	}
}

// tooMany are 1000 private keys, each of which would be read if it came to that.
func tooMany() map[string][]byte {
	data := map[string][]byte{"private-key.pem": []byte("x")}
	for i := range 999 {
		data[fmt.Sprintf("private-key-%d.pem", i)] = []byte("x")
	}
	return data
}

// TestExpires: the certificate counts that expires first.
func TestExpires(t *testing.T) {
	one, _, _ := newPrivateKey(t)
	two, _, second := newPrivateKey(t)
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	until := func(private []byte, in time.Duration) []byte {
		return certificateOf(t, private, func(c *ssh.Certificate) { c.ValidBefore = uint64(at.Add(in).Unix()) })
	}
	for _, test := range []struct {
		name   string
		data   map[string][]byte
		needed func(string) bool
		want   time.Time
	}{
		{"nothing", nil, nil, time.Time{}},
		{"no certificate", map[string][]byte{"private-key.pem": one}, nil, time.Time{}},
		{"one", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": until(one, time.Hour)}, nil, at.Add(time.Hour)},
		{"the second", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": until(one, time.Hour), "private-key-b.pem": two, "private-key-b.pem-cert.pub": until(two, time.Minute)}, nil, at.Add(time.Minute)},
		{"the first does not", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": certificateOf(t, one, nil), "private-key-b.pem": two, "private-key-b.pem-cert.pub": until(two, time.Minute)}, nil, at.Add(time.Minute)},
		{"the second does not", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": until(one, time.Minute), "private-key-b.pem": two, "private-key-b.pem-cert.pub": certificateOf(t, two, nil)}, nil, at.Add(time.Minute)},
		{"none does", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": certificateOf(t, one, nil)}, nil, time.Time{}},
		{"only the second is needed", map[string][]byte{"private-key.pem": one, "private-key.pem-cert.pub": until(one, time.Minute), "private-key-b.pem": two, "private-key-b.pem-cert.pub": until(two, time.Hour)}, func(key string) bool { return key == second }, at.Add(time.Hour)},
		{"of another key", map[string][]byte{"private-key.pem": two, "private-key.pem-cert.pub": until(one, time.Hour)}, nil, time.Time{}},
	} {
		if got := new(CredentialCache).Expires(test.data, test.needed); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestRemarks: what is the matter with a certificate is said with what to run.
func TestRemarks(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	signer := hosttest.NewKey(t)
	const sign = "sign the key again and write private-key.pem-cert.pub into the Secret: ssh-keygen -s AUTHORITY -I windows-instance-api -n 'administrator' -V +52w private-key.pem.pub"
	for _, test := range []struct {
		name   string
		change func(*ssh.Certificate)
		want   string
	}{
		{"nothing", nil, ""},
		{"expired", func(c *ssh.Certificate) { c.ValidBefore = uint64(at.Unix()) }, "The certificate private-key.pem-cert.pub of Secret ns/key expired at 2026-03-05T12:00:00Z, so it is not used: " + sign + "."},
		{"not valid yet", func(c *ssh.Certificate) { c.ValidAfter = uint64(at.Unix()) + 1 }, "The certificate private-key.pem-cert.pub of Secret ns/key is not valid before 2026-03-05T12:00:01Z, so it is not used: check the clock of the machine that signed it, or " + sign + "."},
		{"as the user is written", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"Administrator"} }, "The certificate private-key.pem-cert.pub of Secret ns/key does not have the principal administrator, which user Administrator is for sshd (ssh-keygen -L -f private-key.pem-cert.pub): " + sign + "; or name one of its principals in AuthorizedPrincipalsFile of the server."},
		{"of another user", func(c *ssh.Certificate) { c.ValidPrincipals = []string{"core"} }, "The certificate private-key.pem-cert.pub of Secret ns/key does not have the principal administrator, which user Administrator is for sshd (ssh-keygen -L -f private-key.pem-cert.pub): " + sign + "; or name one of its principals in AuthorizedPrincipalsFile of the server."},
	} {
		c := credentials{identities: []identity{{file: keyPrivateKey, signer: signer, certificate: signed(t, signer, test.change)}, {file: "private-key-old.pem", signer: signer}}}
		if got := c.remark("ns/key", onHost("Administrator"), at); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSeveralKeys: a host that accepts one of several keys is current, and which one it accepts is found out.
func TestSeveralKeys(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	old := s.Secrets["operator/cloud-private-key"]["private-key.pem"]
	key, err := PublicKey(s.Secrets["operator/cloud-private-key"])
	if err != nil {
		t.Fatal(err)
	}
	next, _, fingerprint := newPrivateKey(t)
	data := map[string][]byte{"private-key.pem": next, "private-key-old.pem": old}
	s.Secrets["operator/cloud-private-key"] = data
	kept, err := new(CredentialCache).Keep(data)
	if err != nil || len(kept) != 2 || kept[0].Fingerprint != fingerprint || kept[1].Fingerprint != key.Fingerprint() || !bytes.Equal(kept[1].Data["private-key.pem"], old) || len(kept[1].Data) != 1 {
		t.Fatalf("kept is %+v, %v", kept, err)
	}
	before := keepOne(t, map[string][]byte{"private-key.pem": mustKey(t)})
	text, err := Kept{Credentials: append(kept, before)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.Secrets["operator/"+KeptSecret] = map[string][]byte{"cloud-private-key": text}
	peer, err := s.connector.Login(t.Context(), s.Instance)
	if err != nil || peer.Accepted != key.Fingerprint() || peer.Wanted != key.Fingerprint() || peer.Certified || peer.With != "" {
		t.Fatalf("it accepts %+v, %v", peer, err)
	}
	r, err := s.connector.Rotation(t.Context(), s.Instance, peer)
	if err != nil || r.Key != key || !r.Kept || len(r.Current) != 2 || len(r.Former) != 1 || r.Former[0].Fingerprint() != before.Fingerprint || r.Certified {
		t.Errorf("got %+v, %v", r, err)
	}
	if signers := r.Proof.Credential.Signers; len(signers) != 1 || hostssh.Fingerprint(signers[0].PublicKey()) != key.Fingerprint() {
		t.Errorf("it is proven by %d keys", len(signers))
	}
	// A host that has none of them gets the first.
	if r, err := s.connector.Rotation(t.Context(), s.Instance, Peer{Accepted: before.Fingerprint}); err != nil || r.Key.Fingerprint() != fingerprint {
		t.Errorf("got %+v, %v", r, err)
	}
	s.Instance.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: key.Fingerprint()}
	delete(s.Secrets, "operator/"+KeptSecret)
	target, err := s.connector.Target(t.Context(), s.Instance)
	if err != nil || len(target.Credential.Signers) != 2 || hostssh.Fingerprint(target.Credential.Signers[0].PublicKey()) != key.Fingerprint() {
		t.Errorf("then it is offered %v, %v", target.Credential.Signers, err)
	}
}

func mustKey(t *testing.T) []byte {
	t.Helper()
	private, _, _ := newPrivateKey(t)
	return private
}

// TestCertificates: what a real sshd makes of the certificate of a Secret, and what is said of it.
func TestCertificates(t *testing.T) {
	authority := hosttest.NewKey(t)
	private, signer, fingerprint := newPrivateKey(t)
	only := opensshd.Start(t, opensshd.Options{UserAuthority: authority.PublicKey()})
	both := opensshd.Start(t, opensshd.Options{UserAuthority: authority.PublicKey(), AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	at := time.Now()
	until := at.Add(time.Hour).UTC().Truncate(time.Second)
	valid := func(c *ssh.Certificate) {
		c.ValidPrincipals, c.ValidAfter, c.ValidBefore = []string{only.User}, uint64(at.Add(-time.Minute).Unix()), uint64(until.Unix())
	}
	s := newSite(t, winhost.InProcessOptions{})
	for _, test := range []struct {
		name      string
		sshd      *opensshd.Server
		change    func(*ssh.Certificate)
		now       time.Time
		certified bool
		remark    string // its part
		refused   bool
	}{
		{name: "accepted", sshd: only, change: valid, now: at, certified: true},
		{name: "before the key", sshd: both, change: valid, now: at, certified: true},
		{name: "expired meanwhile", sshd: only, change: valid, now: until, refused: true, remark: "expired at " + until.Format(time.RFC3339)},
		{name: "expired meanwhile, and the key is accepted", sshd: both, change: valid, now: until, remark: "expired at " + until.Format(time.RFC3339)},
		{name: "of another user", sshd: only, change: nil, now: at, refused: true, remark: "does not have the principal " + only.User},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Secrets["operator/cloud-private-key"] = map[string][]byte{"private-key.pem": private, "private-key.pem-cert.pub": certificateBy(t, authority, signer.PublicKey(), test.change)}
			instance := s.Instance.DeepCopy()
			instance.Name = strings.ReplaceAll(test.name, " ", "-")
			instance.Spec.Address, instance.Spec.Port, instance.Spec.Username, instance.Spec.HostKeys = test.sshd.Host, int32(test.sshd.Port), test.sshd.User, []string{hostsite.Line(test.sshd.HostKey())}
			s.connector.now = func() time.Time { return at }
			if test.change != nil {
				if _, err := s.connector.Login(t.Context(), instance); err != nil {
					t.Fatalf("while it is valid: %v", err)
				}
			}
			s.connector.now = func() time.Time { return test.now }
			peer, err := s.connector.Login(t.Context(), instance)
			if test.refused {
				failed, ok := errors.AsType[*hostssh.Error](err)
				if !ok || failed.Reason != hostssh.ReasonCredentialsRefused || !strings.Contains(failed.Remark, test.remark) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || peer.Accepted != fingerprint || peer.Wanted != fingerprint || peer.Certified != test.certified || (peer.Remark == "") != (test.remark == "") || !strings.Contains(peer.Remark, test.remark) {
				t.Errorf("got %+v, %v", peer, err)
			}
			if want := "a certificate of key " + fingerprint + ", which is valid until " + until.Format(time.RFC3339); test.certified && peer.With != want {
				t.Errorf("it says %q, want %q", peer.With, want)
			}
			trace := s.connector.Trace(t.Context(), instance)
			defer trace.Close()
			if got := trace.AcceptedCredential(); test.certified && got != peer.With || !test.certified && got != "key "+fingerprint {
				t.Errorf("a check says %q", got)
			}
		})
	}
}
