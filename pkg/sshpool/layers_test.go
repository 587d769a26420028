// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package sshpool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/sshpool"
)

// silent reads and never answers.
func silent(c net.Conn) { io.Copy(io.Discard, c) }

// says sends text and then keeps silent.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, text)
		silent(c)
	}
}

// saysAndCloses closes in order, so that the client gets the text.
func saysAndCloses(text string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		silent(c)
	}
}

// resets ends the connection with RST, but not before it is established for the client.
func resets(c net.Conn) {
	io.ReadFull(c, make([]byte, 1))
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// cuts ends the connection with RST at once.
func cuts(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// limitedConn lets a server write some messages, and then does what then says. Each
// write of the SSH library is one message: identification, KEXINIT, key exchange reply
// with NEWKEYS and whatever follows.
type limitedConn struct {
	net.Conn
	writes int
	then   func(net.Conn)
}

func (c *limitedConn) Write(b []byte) (int, error) {
	if c.writes == 0 {
		c.then(c.Conn)
		return 0, io.ErrClosedPipe
	}
	c.writes--
	return c.Conn.Write(b)
}

func after(writes int, then func(net.Conn)) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn { return &limitedConn{Conn: c, writes: writes, then: then} }
}

// Writes of the server: identification, KEXINIT, key exchange reply, NEWKEYS, EXT_INFO, answers to authentication.
const (
	writesBeforeKexReply = 2
	writesBeforeAuth     = 5
)

func TestLayers(t *testing.T) {
	quick := sshpool.Options{HandshakeTimeout: 300 * time.Millisecond}
	rsaKey, ecKey := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoECDSA256)
	stranger := newSigner(t, ssh.KeyAlgoED25519)
	tests := []struct {
		name    string
		script  script
		options sshpool.Options
		change  func(*sshpool.Target)
		layer   sshpool.Layer
		reason  sshpool.Reason
		// says must be part of the message.
		says string
	}{
		{name: "name without address", change: func(t *sshpool.Target) { t.Address = "nowhere.invalid" },
			options: sshpool.Options{Resolver: resolver{err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}},
			layer:   sshpool.LayerDNS, reason: sshpool.ReasonNameNotResolved, says: "nowhere.invalid"},
		{name: "empty address", change: func(t *sshpool.Target) { t.Address = "" },
			layer: sshpool.LayerDNS, reason: sshpool.ReasonNameNotResolved},
		{name: "name server that is silent", change: func(t *sshpool.Target) { t.Address = "slow.invalid" },
			options: sshpool.Options{Resolver: resolver{hang: true}, DialTimeout: 50 * time.Millisecond},
			layer:   sshpool.LayerDNS, reason: sshpool.ReasonTimedOut, says: "slow.invalid"},
		{name: "refused address", options: sshpool.Options{AllowAddress: refuseLoopback},
			layer: sshpool.LayerConnect, reason: sshpool.ReasonAddressRefused, says: "loopback"},
		{name: "refused address behind a name", change: func(t *sshpool.Target) { t.Address = "rebound.invalid" },
			options: sshpool.Options{AllowAddress: refuseLoopback, Resolver: resolver{addrs: []string{"127.0.0.1", "::1"}}},
			layer:   sshpool.LayerConnect, reason: sshpool.ReasonAddressRefused, says: "::1"},
		{name: "closed port", change: func(t *sshpool.Target) { t.Port = closedPort() },
			layer: sshpool.LayerConnect, reason: sshpool.ReasonConnectionRefused},

		{name: "silence instead of a banner", script: script{raw: silent}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeTimedOut},
		{name: "half a banner", script: script{raw: says("SSH-2.0-slo")}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeTimedOut},
		{name: "a dripping banner", script: script{raw: drips}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeTimedOut},
		{name: "banner and then silence", script: script{raw: says("SSH-2.0-hangs\r\n")}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeTimedOut},
		{name: "close before the banner", script: script{raw: func(net.Conn) {}},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonConnectionReset},
		{name: "reset before the banner", script: script{raw: resets},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonConnectionReset},
		{name: "MaxStartups", script: script{raw: saysAndCloses("Exceeded MaxStartups\r\n")},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonConnectionReset, says: "Exceeded MaxStartups"},
		{name: "HTTP", script: script{raw: saysAndCloses("HTTP/1.1 400 Bad Request\r\n\r\n")},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonNotSSH, says: "HTTP/1.1 400 Bad Request"},
		{name: "SMTP", script: script{raw: says("220 mail ESMTP\r\n")}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonNotSSH, says: "220 mail"},
		{name: "endless garbage", script: script{raw: garbage},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonNotSSH},
		{name: "garbage after the banner", script: script{raw: says("SSH-2.0-x\r\n" + strings.Repeat("garbage!", 100))},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeFailed},
		{name: "no common cipher", script: script{ciphers: []string{ssh.CipherChaCha20Poly1305}},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeFailed, says: "no common algorithm"},
		{name: "reset in the key exchange", script: script{wrap: after(writesBeforeKexReply, cuts)},
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonConnectionReset},
		{name: "silence in the key exchange", script: script{wrap: after(writesBeforeKexReply, silent)}, options: quick,
			layer: sshpool.LayerHandshake, reason: sshpool.ReasonHandshakeTimedOut},

		{name: "nothing pinned", change: func(t *sshpool.Target) { t.HostKeys = nil },
			layer: sshpool.LayerHostKey, reason: sshpool.ReasonHostKeyUnknown, says: "SHA256:"},
		{name: "another key of the pinned type", change: func(t *sshpool.Target) { t.HostKeys = []ssh.PublicKey{stranger.PublicKey()} },
			layer: sshpool.LayerHostKey, reason: sshpool.ReasonHostKeyChanged, says: sshpool.Fingerprint(stranger.PublicKey())},
		{name: "no key of the pinned type", script: script{hostKeys: []ssh.Signer{rsaKey}},
			change: func(t *sshpool.Target) { t.HostKeys = []ssh.PublicKey{ecKey.PublicKey()} },
			layer:  sshpool.LayerHostKey, reason: sshpool.ReasonHostKeyChanged, says: sshpool.Fingerprint(rsaKey.PublicKey())},

		{name: "refused key", script: script{refuseKeys: true},
			layer: sshpool.LayerAuth, reason: sshpool.ReasonCredentialsRefused, says: "the server accepts publickey"},
		{name: "more keys than the server hears", script: script{refuseKeys: true},
			change: func(t *sshpool.Target) {
				t.Credential.Signers = slices.Repeat([]ssh.Signer{stranger}, 8)
			},
			layer: sshpool.LayerAuth, reason: sshpool.ReasonCredentialsRefused},
		{name: "refused password", script: script{refuseKeys: true, password: "right"},
			change: func(t *sshpool.Target) { t.Credential.Password = "wrong" },
			layer:  sshpool.LayerAuth, reason: sshpool.ReasonCredentialsRefused, says: "password"},
		{name: "refused answer", script: script{refuseKeys: true, password: "right", interactive: true},
			change: func(t *sshpool.Target) { t.Credential.Password = "wrong" },
			layer:  sshpool.LayerAuth, reason: sshpool.ReasonCredentialsRefused, says: "keyboard-interactive"},
		{name: "no credential", change: func(t *sshpool.Target) { t.Credential = sshpool.Credential{} },
			layer: sshpool.LayerAuth, reason: sshpool.ReasonCredentialsRefused, says: "no credential to try"},
		{name: "silence in authentication", script: script{wrap: after(writesBeforeAuth, silent)}, options: quick,
			layer: sshpool.LayerAuth, reason: sshpool.ReasonTimedOut},
		{name: "silence in the middle of authentication", script: script{wrap: after(writesBeforeAuth+2, silent)}, options: quick,
			layer: sshpool.LayerAuth, reason: sshpool.ReasonTimedOut},
		{name: "reset in authentication", script: script{wrap: after(writesBeforeAuth, cuts)},
			layer: sshpool.LayerAuth, reason: sshpool.ReasonConnectionReset},
		{name: "reset in the middle of authentication", script: script{wrap: after(writesBeforeAuth+2, cuts)},
			layer: sshpool.LayerAuth, reason: sshpool.ReasonConnectionReset},

		{name: "refused session", script: script{maxSessions: -1},
			layer: sshpool.LayerSession, reason: sshpool.ReasonSessionRefused},
		{name: "refused command", script: script{refuseExec: true},
			layer: sshpool.LayerShell, reason: sshpool.ReasonSessionRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.script)
			p := sshpool.New(tt.options)
			defer p.Close()
			target := s.target()
			if tt.change != nil {
				tt.change(&target)
			}
			err := p.Run(testContext(t), target, "echo hello", nil, nil)
			e := wantError(t, err, tt.layer, tt.reason)
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("message %q does not say %q", err, tt.says)
			}
			if e.Address == "" || !strings.Contains(err.Error(), string(tt.layer)) {
				t.Errorf("message %q does not name the layer, or the address %q is empty", err, e.Address)
			}
			if tt.layer != sshpool.LayerAuth && tt.layer != sshpool.LayerSession && tt.layer != sshpool.LayerShell && s.count(&s.asked) > 0 {
				t.Error("the user was named before the host was trusted")
			}
		})
	}
}

func TestHostKeyErrorHasBothKeys(t *testing.T) {
	present, pinned := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoECDSA256)
	s := newServer(t, script{hostKeys: []ssh.Signer{present}})
	p := newPool(t, sshpool.Options{})
	target := s.target()
	target.HostKeys = []ssh.PublicKey{pinned.PublicKey()}

	err := p.Ping(testContext(t), target)
	wantError(t, err, sshpool.LayerHostKey, sshpool.ReasonHostKeyChanged)
	var hk *sshpool.HostKeyError
	if !errors.As(err, &hk) {
		t.Fatalf("%v wraps no *HostKeyError", err)
	}
	if hk.Presented == nil || !bytes.Equal(hk.Presented.Marshal(), present.PublicKey().Marshal()) {
		t.Errorf("Presented is %v, want the key of the server", hk.Presented)
	}
	if len(hk.Pinned) != 1 || !bytes.Equal(hk.Pinned[0].Marshal(), pinned.PublicKey().Marshal()) {
		t.Errorf("Pinned is %v, want the pinned key", hk.Pinned)
	}
	if s.count(&s.asked) != 0 {
		t.Error("the user was named to a host with a changed key")
	}
}

func TestPinnedTypeIsAskedFor(t *testing.T) {
	keys := []ssh.Signer{newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoECDSA256), newSigner(t, ssh.KeyAlgoRSA)}
	s := newServer(t, script{hostKeys: keys})
	p := newPool(t, sshpool.Options{})
	for _, k := range keys {
		t.Run(k.PublicKey().Type(), func(t *testing.T) {
			target := s.target()
			target.HostKeys = []ssh.PublicKey{k.PublicKey()}
			if err := p.Ping(testContext(t), target); err != nil {
				t.Errorf("Ping: %v", err)
			}
			got, err := p.HostKey(testContext(t), target)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Marshal(), k.PublicKey().Marshal()) {
				t.Errorf("HostKey presents %s, want the pinned %s", got.Type(), k.PublicKey().Type())
			}
		})
	}
}

func TestHostKeyDoesNotAuthenticate(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, sshpool.Options{})
	target := s.target()
	target.HostKeys = nil
	got, err := p.HostKey(testContext(t), target)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.script.hostKeys[0].PublicKey(); !bytes.Equal(got.Marshal(), want.Marshal()) {
		t.Errorf("got %s, want %s", sshpool.Fingerprint(got), sshpool.Fingerprint(want))
	}
	if s.count(&s.asked) != 0 {
		t.Error("it authenticated")
	}
	if c := p.Stats().Connections; c != 0 {
		t.Errorf("%d connections are kept, want none", c)
	}
}

func TestCredentials(t *testing.T) {
	old, rsaKey := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoRSA)
	tests := []struct {
		name       string
		script     script
		key        ssh.Signer // that the server knows; nil is the usual one
		credential func(*server) sshpool.Credential
	}{
		{name: "key", credential: func(s *server) sshpool.Credential {
			return sshpool.Credential{Signers: []ssh.Signer{s.key}}
		}},
		{name: "RSA key", key: rsaKey, credential: func(s *server) sshpool.Credential {
			return sshpool.Credential{Signers: []ssh.Signer{rsaKey}}
		}},
		{name: "second of two keys", credential: func(s *server) sshpool.Credential {
			return sshpool.Credential{Signers: []ssh.Signer{old, s.key}}
		}},
		{name: "password", script: script{password: "secret"}, credential: func(*server) sshpool.Credential {
			return sshpool.Credential{Password: "secret"}
		}},
		{name: "password after a refused key", script: script{password: "secret"}, credential: func(*server) sshpool.Credential {
			return sshpool.Credential{Signers: []ssh.Signer{old}, Password: "secret"}
		}},
		{name: "keyboard-interactive", script: script{password: "secret", interactive: true}, credential: func(*server) sshpool.Credential {
			return sshpool.Credential{Password: "secret"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			if tt.key != nil {
				s.key = tt.key
			}
			p := newPool(t, sshpool.Options{})
			target := s.target()
			target.Credential = tt.credential(s)
			if err := p.Ping(testContext(t), target); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorsHaveNoSecrets(t *testing.T) {
	s := newServer(t, script{refuseKeys: true, password: "right"})
	p := newPool(t, sshpool.Options{})
	target := s.target()
	target.Credential.Password = "hunter2"
	err := p.Ping(testContext(t), target)
	wantError(t, err, sshpool.LayerAuth, sshpool.ReasonCredentialsRefused)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%q has the password", err)
	}
}

func TestContextEndsADial(t *testing.T) {
	tests := []struct {
		name   string
		script script
		layer  sshpool.Layer
		reason sshpool.Reason
	}{
		{"in the handshake", script{raw: silent}, sshpool.LayerHandshake, sshpool.ReasonHandshakeTimedOut},
		{"in authentication", script{wrap: after(writesBeforeAuth, silent)}, sshpool.LayerAuth, sshpool.ReasonTimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			p := newPool(t, sshpool.Options{HandshakeTimeout: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := p.Ping(ctx, s.target())
			wantError(t, err, tt.layer, tt.reason)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not context.DeadlineExceeded", err)
			}
			eventually(t, "the dial that nobody waits for ends", func() bool { return p.Stats().Dialing == 0 })
		})
	}
}

func TestAddresses(t *testing.T) {
	s := newServer(t, script{})
	tests := []struct {
		name    string
		address string
		addrs   []string
		allow   func(netip.Addr) error
	}{
		{name: "literal", address: "127.0.0.1"},
		{name: "IPv4 in IPv6", address: "::ffff:127.0.0.1"},
		{name: "literal in brackets", address: "[::ffff:127.0.0.1]"},
		{name: "name", address: "host.invalid", addrs: []string{"127.0.0.1"}},
		{name: "the second address answers", address: "host.invalid", addrs: []string{"127.0.0.9", "127.0.0.1"}},
		{name: "the only allowed address", address: "host.invalid", addrs: []string{"::1", "127.0.0.1"}, allow: func(a netip.Addr) error {
			if a.Is6() {
				return errors.New("no IPv6")
			}
			return nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, sshpool.Options{Resolver: resolver{addrs: tt.addrs}, AllowAddress: tt.allow})
			target := s.target()
			target.Address = tt.address
			if err := p.Ping(testContext(t), target); err != nil {
				t.Error(err)
			}
		})
	}
}

// resolver is a name server with one answer.
type resolver struct {
	addrs []string
	err   error
	hang  bool
}

func (r resolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	if r.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var addrs []netip.Addr
	for _, a := range r.addrs {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, r.err
}

func refuseLoopback(a netip.Addr) error {
	if a.IsLoopback() {
		return errors.New("loopback is not allowed")
	}
	return nil
}

// closedPort is a port that nothing listens on.
func closedPort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// drips sends a byte now and then, so that every single read is answered.
func drips(c net.Conn) {
	for _, b := range []byte("SSH-2.0-" + strings.Repeat("drip", 1000)) {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // this is the fault itself
	}
}

func garbage(c net.Conn) {
	for {
		if _, err := c.Write(bytes.Repeat([]byte{0xde, 0xad, '\n'}, 1000)); err != nil {
			return
		}
	}
}
