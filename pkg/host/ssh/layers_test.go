// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
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

// unhurried are limits that a step exceeds, and that those before it, which share them, do not even on a busy machine.
var unhurried = hostssh.Options{HandshakeTimeout: 3 * time.Second, DialTimeout: 3 * time.Second}

func TestLayers(t *testing.T) {
	quick := hostssh.Options{HandshakeTimeout: 300 * time.Millisecond}
	rsaKey, ecKey := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoECDSA256)
	stranger := newSigner(t, ssh.KeyAlgoED25519)
	tests := []struct {
		name    string
		script  script
		options hostssh.Options
		change  func(*hostssh.Target)
		layer   hostssh.Layer
		reason  hostssh.Reason
		// says must be part of the message.
		says string
	}{
		{name: "name without address", change: func(t *hostssh.Target) { t.Address = "nowhere.invalid" },
			options: hostssh.Options{Resolver: resolver{err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}},
			layer:   hostssh.LayerDNS, reason: hostssh.ReasonNameNotResolved, says: "nowhere.invalid"},
		{name: "empty address", change: func(t *hostssh.Target) { t.Address = "" },
			layer: hostssh.LayerDNS, reason: hostssh.ReasonNameNotResolved, says: "the target has no address"},
		{name: "name server that is silent", change: func(t *hostssh.Target) { t.Address = "slow.invalid" },
			options: hostssh.Options{Resolver: resolver{hang: true}, DialTimeout: 50 * time.Millisecond},
			layer:   hostssh.LayerDNS, reason: hostssh.ReasonTimedOut, says: "slow.invalid"},
		{name: "name server that says that others are silent", change: func(t *hostssh.Target) { t.Address = "slow.invalid" },
			options: hostssh.Options{Resolver: resolver{err: &net.DNSError{Err: "i/o timeout", Name: "slow.invalid", IsTimeout: true}}},
			layer:   hostssh.LayerDNS, reason: hostssh.ReasonTimedOut, says: "resolving slow.invalid"},
		{name: "name without an address of a kind that we use", change: func(t *hostssh.Target) { t.Address = "empty.invalid" },
			options: hostssh.Options{Resolver: resolver{}},
			layer:   hostssh.LayerDNS, reason: hostssh.ReasonNameNotResolved, says: "empty.invalid has no address"},
		{name: "refused address", options: hostssh.Options{AllowAddress: refuseLoopback},
			layer: hostssh.LayerConnect, reason: hostssh.ReasonAddressRefused, says: "loopback"},
		{name: "refused address behind a name", change: func(t *hostssh.Target) { t.Address = "rebound.invalid" },
			options: hostssh.Options{AllowAddress: refuseLoopback, Resolver: resolver{addrs: []string{"127.0.0.1", "::1"}}},
			layer:   hostssh.LayerConnect, reason: hostssh.ReasonAddressRefused, says: "::1"},
		{name: "closed port", change: func(t *hostssh.Target) { t.Port = closedPort() },
			layer: hostssh.LayerConnect, reason: hostssh.ReasonConnectionRefused, says: "connect: connection refused"},

		{name: "silence instead of a banner", script: script{raw: silent}, options: quick,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},
		{name: "half a banner", script: script{raw: says("SSH-2.0-slo")}, options: quick,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},
		{name: "a dripping banner", script: script{raw: drips}, options: quick,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},
		{name: "banner and then silence", script: script{raw: says("SSH-2.0-hangs\r\n")}, options: quick,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},
		{name: "close before the banner", script: script{raw: func(net.Conn) {}},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonConnectionReset},
		{name: "reset before the banner", script: script{raw: resets},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonConnectionReset},
		{name: "MaxStartups", script: script{raw: saysAndCloses("Exceeded MaxStartups\r\n")},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonConnectionReset, says: "Exceeded MaxStartups"},
		{name: "HTTP", script: script{raw: saysAndCloses("HTTP/1.1 400 Bad Request\r\n\r\n")},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonNotSSH},
		{name: "SMTP", script: script{raw: says("220 mail ESMTP\r\n")}, options: unhurried,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonNotSSH},
		{name: "endless garbage", script: script{raw: garbage},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonNotSSH},
		{name: "garbage after the banner", script: script{raw: says("SSH-2.0-x\r\n" + strings.Repeat("garbage!", 100))},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeFailed},
		{name: "no common cipher", script: script{ciphers: []string{ssh.CipherChaCha20Poly1305}},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeFailed, says: "no common algorithm"},
		{name: "no host key but of a broken algorithm", script: script{hostKeys: []ssh.Signer{onlySHA1(t, rsaKey)}}, change: func(t *hostssh.Target) { t.HostKeys = nil },
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeFailed, says: "no common algorithm"},
		{name: "reset in the key exchange", script: script{wrap: after(writesBeforeKexReply, cuts)},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonConnectionReset},
		{name: "silence in the key exchange", script: script{wrap: after(writesBeforeKexReply, silent)}, options: unhurried,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},

		{name: "nothing pinned", change: func(t *hostssh.Target) { t.HostKeys = nil },
			layer: hostssh.LayerHostKey, reason: hostssh.ReasonHostKeyUnknown, says: "SHA256:"},
		{name: "another key of the pinned type", change: func(t *hostssh.Target) { t.HostKeys = []ssh.PublicKey{stranger.PublicKey()} },
			layer: hostssh.LayerHostKey, reason: hostssh.ReasonHostKeyChanged, says: hostssh.Fingerprint(stranger.PublicKey())},
		{name: "no key of the pinned type", script: script{hostKeys: []ssh.Signer{rsaKey}},
			change: func(t *hostssh.Target) { t.HostKeys = []ssh.PublicKey{ecKey.PublicKey()} },
			layer:  hostssh.LayerHostKey, reason: hostssh.ReasonHostKeyChanged, says: hostssh.Fingerprint(rsaKey.PublicKey())},

		{name: "refused key", script: script{refuseKeys: true},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused, says: `user "admin": tried publickey (ssh-ed25519 SHA256:`},
		{name: "more keys than the server hears", script: script{refuseKeys: true},
			change: func(t *hostssh.Target) {
				t.Credential.Signers = slices.Repeat([]ssh.Signer{stranger}, 8)
			},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused},
		{name: "refused password", script: script{refuseKeys: true, password: "right"},
			change: func(t *hostssh.Target) { t.Credential.Password = "wrong" },
			layer:  hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused, says: "), password; the server accepts"},
		{name: "refused answer", script: script{refuseKeys: true, password: "right", interactive: true},
			change: func(t *hostssh.Target) { t.Credential.Password = "wrong" },
			layer:  hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused, says: "), keyboard-interactive; the server accepts"},
		{name: "no answer to give", script: script{refuseKeys: true, password: "right", interactive: true},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused, says: "); the server accepts publickey, keyboard-interactive"},
		{name: "no credential", change: func(t *hostssh.Target) { t.Credential = hostssh.Credential{} },
			layer: hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused, says: "no credential to try"},
		{name: "silence in authentication", script: script{wrap: after(writesBeforeAuth, silent)}, options: unhurried,
			layer: hostssh.LayerAuth, reason: hostssh.ReasonTimedOut},
		{name: "silence in the middle of authentication", script: script{wrap: after(writesBeforeAuth+2, silent)}, options: unhurried,
			layer: hostssh.LayerAuth, reason: hostssh.ReasonTimedOut},
		{name: "reset in authentication", script: script{wrap: after(writesBeforeAuth, cuts)},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonConnectionReset},
		{name: "reset in the middle of authentication", script: script{wrap: after(writesBeforeAuth+2, cuts)},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonConnectionReset},

		{name: "refused session", script: script{maxSessions: -1},
			layer: hostssh.LayerSession, reason: hostssh.ReasonSessionRefused},
		{name: "refused command", script: script{refuseExec: true},
			layer: hostssh.LayerShell, reason: hostssh.ReasonSessionRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.script)
			p := hostssh.New(tt.options)
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
			if tt.layer != hostssh.LayerAuth && tt.layer != hostssh.LayerSession && tt.layer != hostssh.LayerShell && s.count(&s.asked) > 0 {
				t.Error("the user was named before the host was trusted")
			}
		})
	}
}

// onlySHA1 is an RSA key that signs with ssh-rsa only.
func onlySHA1(t *testing.T, key ssh.Signer) ssh.Signer {
	t.Helper()
	weak, err := ssh.NewSignerWithAlgorithms(key.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	return weak
}

func TestHostKeyErrorHasBothKeys(t *testing.T) {
	present, pinned := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoECDSA256)
	s := newServer(t, script{hostKeys: []ssh.Signer{present}})
	p := newPool(t, hostssh.Options{})
	target := s.target()
	target.HostKeys = []ssh.PublicKey{pinned.PublicKey()}

	err := p.Ping(testContext(t), target)
	wantError(t, err, hostssh.LayerHostKey, hostssh.ReasonHostKeyChanged)
	var hk *hostssh.HostKeyError
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
	p := newPool(t, hostssh.Options{})
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
	p := newPool(t, hostssh.Options{})
	target := s.target()
	target.HostKeys = nil
	got, err := p.HostKey(testContext(t), target)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.script.hostKeys[0].PublicKey(); !bytes.Equal(got.Marshal(), want.Marshal()) {
		t.Errorf("got %s, want %s", hostssh.Fingerprint(got), hostssh.Fingerprint(want))
	}
	if s.count(&s.asked) != 0 {
		t.Error("it authenticated")
	}
	if c := p.Stats().Connections; c != 0 {
		t.Errorf("%d connections are kept, want none", c)
	}
}

// TestHostKeyFailures are at the layers of any other failure.
func TestHostKeyFailures(t *testing.T) {
	quick := hostssh.Options{HandshakeTimeout: 100 * time.Millisecond}
	for _, tt := range []struct {
		name   string
		script script
		change func(*hostssh.Target)
		layer  hostssh.Layer
		reason hostssh.Reason
	}{
		{"no address", script{}, func(t *hostssh.Target) { t.Address = "" }, hostssh.LayerDNS, hostssh.ReasonNameNotResolved},
		{"closed port", script{}, func(t *hostssh.Target) { t.Port = closedPort() }, hostssh.LayerConnect, hostssh.ReasonConnectionRefused},
		{"silence", script{raw: silent}, func(*hostssh.Target) {}, hostssh.LayerHandshake, hostssh.ReasonHandshakeTimedOut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			p := newPool(t, quick)
			target := s.target()
			tt.change(&target)
			key, err := p.HostKey(testContext(t), target)
			if e := wantError(t, err, tt.layer, tt.reason); key != nil || e.Address != target.Endpoint() {
				t.Errorf("got the key %v, and an error about %s", key, e.Address)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	old, rsaKey := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoRSA)
	tests := []struct {
		name       string
		script     script
		key        ssh.Signer // that the server knows; nil is the usual one
		credential func(*server) hostssh.Credential
	}{
		{name: "key", credential: func(s *server) hostssh.Credential {
			return hostssh.Credential{Signers: []ssh.Signer{s.key}}
		}},
		{name: "RSA key", key: rsaKey, credential: func(s *server) hostssh.Credential {
			return hostssh.Credential{Signers: []ssh.Signer{rsaKey}}
		}},
		{name: "second of two keys", credential: func(s *server) hostssh.Credential {
			return hostssh.Credential{Signers: []ssh.Signer{old, s.key}}
		}},
		{name: "password", script: script{password: "secret"}, credential: func(*server) hostssh.Credential {
			return hostssh.Credential{Password: "secret"}
		}},
		{name: "password after a refused key", script: script{password: "secret"}, credential: func(*server) hostssh.Credential {
			return hostssh.Credential{Signers: []ssh.Signer{old}, Password: "secret"}
		}},
		{name: "keyboard-interactive", script: script{password: "secret", interactive: true}, credential: func(*server) hostssh.Credential {
			return hostssh.Credential{Password: "secret"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			if tt.key != nil {
				s.key = tt.key
			}
			p := newPool(t, hostssh.Options{})
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
	p := newPool(t, hostssh.Options{})
	target := s.target()
	target.Credential.Password = "hunter2"
	err := p.Ping(testContext(t), target)
	wantError(t, err, hostssh.LayerAuth, hostssh.ReasonCredentialsRefused)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%q has the password", err)
	}
}

func TestContextEndsADial(t *testing.T) {
	tests := []struct {
		name   string
		script script
		layer  hostssh.Layer
		reason hostssh.Reason
	}{
		{"in the handshake", script{raw: silent}, hostssh.LayerHandshake, hostssh.ReasonHandshakeTimedOut},
		{"in authentication", script{wrap: after(writesBeforeAuth, silent)}, hostssh.LayerAuth, hostssh.ReasonTimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			p := newPool(t, hostssh.Options{HandshakeTimeout: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
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
			p := newPool(t, hostssh.Options{Resolver: resolver{addrs: tt.addrs}, AllowAddress: tt.allow})
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
		return fmt.Errorf("%s is loopback, which is not allowed", a)
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
