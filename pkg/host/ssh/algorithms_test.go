// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

// TestAlgorithms: servers that have only one algorithm of a kind, of those that Windows has, are reached, and those that have
// only what is broken are not.
func TestAlgorithms(t *testing.T) {
	const ctr = "aes128-ctr" // with which a MAC of its own is used
	for _, tt := range []struct {
		kind   func(algorithm string) ssh.Config
		strong []string
		weak   []string
	}{
		{
			func(a string) ssh.Config { return ssh.Config{Ciphers: []string{a}} },
			[]string{"aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "aes192-ctr", ctr},
			[]string{"chacha20-poly1305@openssh.com", "aes128-cbc", "arcfour256"},
		},
		{
			func(a string) ssh.Config { return ssh.Config{Ciphers: []string{ctr}, MACs: []string{a}} },
			[]string{"hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512"},
			[]string{"hmac-sha1", "hmac-sha1-96"},
		},
		{
			func(a string) ssh.Config { return ssh.Config{KeyExchanges: []string{a}} },
			[]string{
				"mlkem768x25519-sha256", "curve25519-sha256", "ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521",
				"diffie-hellman-group16-sha512", "diffie-hellman-group14-sha256",
			},
			[]string{"diffie-hellman-group14-sha1", "diffie-hellman-group1-sha1"},
		},
	} {
		for i, algorithm := range append(tt.strong, tt.weak...) {
			t.Run(algorithm, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, s := New(Options{}), newPeer(t)
					defer p.Close()
					s.config = tt.kind(algorithm)
					_, err := s.join(p)
					want := Reason("")
					if i >= len(tt.strong) {
						want = ReasonHandshakeFailed
					}
					if reasonOf(err) != want {
						t.Errorf("got %v, want %q", err, want)
					}
				})
			})
		}
	}
}

// TestHostKeyAlgorithms: a host with several keys is asked for those that are pinned, the best first, and signs no SHA-1.
func TestHostKeyAlgorithms(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	ed := newPeer(t).key.PublicKey()
	certificate := &ssh.Certificate{Key: ed}
	for _, tt := range []struct {
		name   string
		pinned []PublicKey
		want   []string
	}{
		{"none", nil, nil},
		{"RSA", []PublicKey{rsaKey}, []string{"rsa-sha2-512", "rsa-sha2-256"}},
		{"a certificate, which no host is asked for", []PublicKey{certificate}, nil},
		{"two", []PublicKey{rsaKey, ed}, []string{"ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, pinnedAlgorithms(tt.pinned)); d != "" {
				t.Error(d)
			}
			for _, key := range tt.pinned {
				if Presentable(key) != (tt.want != nil) {
					t.Errorf("%s is presented: %t", key.Type(), Presentable(key))
				}
			}
		})
	}
	want := []string{"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256"}
	if d := cmp.Diff(want, hostKeyPreference); d != "" {
		t.Error(d)
	}
}
