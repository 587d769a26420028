// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// bastion is the server as what hosts are reached through.
func (s *server) bastion() *hostssh.Bastion {
	t := s.target()
	return &hostssh.Bastion{Address: t.Address, Port: t.Port, User: t.User, Credential: t.Credential, HostKeys: t.HostKeys}
}

// behind returns a host, the bastion in front of it, and the target.
func behind(t *testing.T, of, at script) (host, bastion *server, _ hostssh.Target) {
	t.Helper()
	host, bastion = newServer(t, of), newServer(t, at)
	target := host.target()
	target.Bastion = bastion.bastion()
	return host, bastion, target
}

// requests are where connections were requested to.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.forwards)
}

func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// TestBastion: everything works as without one, the bastion is told an address and never a name, and connections to it end
// with those to the host.
func TestBastion(t *testing.T) {
	host, bastion, target := behind(t, script{}, script{})
	p := newPool(t, hostssh.Options{Resolver: resolver{addrs: []string{"127.0.0.1"}}})
	target.Address, target.Owner = "win-1.example", "win-1"
	peer, err := p.Login(testContext(t), target)
	if err != nil {
		t.Fatal(err)
	}
	if peer.Address.String() != "127.0.0.1" || !bytes.Equal(peer.HostKey.Marshal(), host.script.hostKeys[0].PublicKey().Marshal()) {
		t.Errorf("logged in to %+v, want the host", peer)
	}
	var out bytes.Buffer
	if err := p.Run(testContext(t), target, "echo hello", nil, &out); err != nil || out.String() != "hello\n" {
		t.Errorf("a command: %q, %v", out.String(), err)
	}
	key, err := p.HostKey(testContext(t), target)
	if err != nil || !bytes.Equal(key.Marshal(), host.script.hostKeys[0].PublicKey().Marshal()) {
		t.Errorf("the host key: %v, %v", key, err)
	}
	to := "127.0.0.1:" + strconv.Itoa(host.port())
	if diff := cmp.Diff([]string{to, to}, bastion.requests()); diff != "" {
		t.Errorf("requested of the bastion (-want +got):\n%s", diff)
	}
	if n := p.Stats().Connections; n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
	p.Forget("win-1")
	eventually(t, "the connections to the bastion end", func() bool { return bastion.open() == 0 })
	eventually(t, "the connections to the host end", func() bool { return host.open() == 0 })
	if n := bastion.count(&bastion.sessions); n != 0 {
		t.Errorf("%d sessions on the bastion", n)
	}
}

// TestBastionSecondAddress: the addresses of a name are tried in order, by the bastion, too.
func TestBastionSecondAddress(t *testing.T) {
	var once sync.Once
	host, bastion, target := behind(t, script{}, script{onForward: func(<-chan struct{}) (no *refusal) {
		once.Do(func() { no = &refusal{reason: ssh.Prohibited} })
		return no
	}})
	p := newPool(t, hostssh.Options{Resolver: resolver{addrs: []string{"127.0.0.1", "10.9.9.9"}}})
	target.Address = "win-1.example"
	peer, err := p.Login(testContext(t), target)
	if err != nil || peer.Address.String() != "127.0.0.1" {
		t.Fatalf("%+v, %v", peer, err)
	}
	port := strconv.Itoa(host.port())
	if diff := cmp.Diff([]string{"10.9.9.9:" + port, "127.0.0.1:" + port}, bastion.requests()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBastionLayers(t *testing.T) {
	quick := hostssh.Options{HandshakeTimeout: 300 * time.Millisecond, DialTimeout: 300 * time.Millisecond}
	stranger, otherType := newSigner(t, ssh.KeyAlgoED25519), newSigner(t, ssh.KeyAlgoECDSA256)
	refuses := func(reason ssh.RejectionReason, text string) script {
		return script{onForward: func(<-chan struct{}) *refusal { return &refusal{reason: reason, text: text} }}
	}
	hangs := script{onForward: func(gone <-chan struct{}) *refusal { <-gone; return &refusal{reason: ssh.ConnectionFailed} }}
	tests := []struct {
		name     string
		host, at script
		options  hostssh.Options
		change   func(*hostssh.Target)
		layer    hostssh.Layer
		reason   hostssh.Reason
		// on is the layer on the way to the bastion.
		on hostssh.Layer
		// says must be part of the message.
		says string
		// untouched: the bastion was not contacted.
		untouched bool
	}{
		{name: "bastion without an address", change: func(t *hostssh.Target) { t.Bastion.Address = "nowhere.invalid" },
			options: hostssh.Options{Resolver: resolver{err: &net.DNSError{Err: "no such host", IsNotFound: true}}},
			layer:   hostssh.LayerBastion, reason: hostssh.ReasonNameNotResolved, on: hostssh.LayerDNS, says: "ssh nowhere.invalid:", untouched: true},
		{name: "refused address of the bastion", change: func(t *hostssh.Target) { t.Bastion.Address = "127.0.0.9" },
			options: hostssh.Options{AllowAddress: refuseOnly("127.0.0.9")},
			layer:   hostssh.LayerBastion, reason: hostssh.ReasonAddressRefused, on: hostssh.LayerConnect, says: "127.0.0.9 is closed", untouched: true},
		{name: "refused address of the host", change: func(t *hostssh.Target) { t.Address = "127.0.0.9" },
			options: hostssh.Options{AllowAddress: refuseOnly("127.0.0.9")},
			layer:   hostssh.LayerConnect, reason: hostssh.ReasonAddressRefused, says: "127.0.0.9 is closed", untouched: true},
		{name: "host without an address", change: func(t *hostssh.Target) { t.Address = "nowhere.invalid" },
			options: hostssh.Options{Resolver: resolver{err: &net.DNSError{Err: "no such host", IsNotFound: true}}},
			layer:   hostssh.LayerDNS, reason: hostssh.ReasonNameNotResolved, untouched: true},
		{name: "closed port of the bastion", change: func(t *hostssh.Target) { t.Bastion.Port = closedPort() },
			layer: hostssh.LayerBastion, reason: hostssh.ReasonConnectionRefused, on: hostssh.LayerConnect, untouched: true},
		{name: "bastion that is silent", at: script{raw: silent}, options: quick,
			layer: hostssh.LayerBastion, reason: hostssh.ReasonHandshakeTimedOut, on: hostssh.LayerHandshake},
		{name: "bastion that is no SSH server", at: script{raw: saysAndCloses("HTTP/1.1 400 Bad Request\r\n\r\n")},
			layer: hostssh.LayerBastion, reason: hostssh.ReasonNotSSH, on: hostssh.LayerHandshake},
		{name: "another key of the bastion", change: func(t *hostssh.Target) { t.Bastion.HostKeys = []ssh.PublicKey{stranger.PublicKey()} },
			layer: hostssh.LayerBastion, reason: hostssh.ReasonHostKeyChanged, on: hostssh.LayerHostKey, says: ssh.FingerprintSHA256(stranger.PublicKey())},
		{name: "key of the bastion of another type", change: func(t *hostssh.Target) { t.Bastion.HostKeys = []ssh.PublicKey{otherType.PublicKey()} },
			layer: hostssh.LayerBastion, reason: hostssh.ReasonHostKeyChanged, on: hostssh.LayerHostKey},
		{name: "bastion without a pinned key", change: func(t *hostssh.Target) { t.Bastion.HostKeys = nil },
			layer: hostssh.LayerBastion, reason: hostssh.ReasonHostKeyUnknown, on: hostssh.LayerHostKey},
		{name: "bastion that refuses the key", at: script{refuseKeys: true},
			change: func(t *hostssh.Target) { t.Bastion.Credential.Remark = "The certificate has expired." },
			layer:  hostssh.LayerBastion, reason: hostssh.ReasonCredentialsRefused, on: hostssh.LayerAuth, says: ". The certificate has expired."},
		{name: "bastion that is silent at the login", at: script{wrap: after(writesBeforeAuth, silent)}, options: unhurried,
			layer: hostssh.LayerBastion, reason: hostssh.ReasonTimedOut, on: hostssh.LayerAuth},
		{name: "forwarding is prohibited", at: refuses(ssh.Prohibited, "open failed"),
			layer: hostssh.LayerBastion, reason: hostssh.ReasonForwardRefused, says: "administratively prohibited"},
		{name: "forwarding is not known", at: refuses(ssh.UnknownChannelType, "what?"),
			layer: hostssh.LayerBastion, reason: hostssh.ReasonForwardRefused},
		{name: "bastion without room", at: refuses(ssh.ResourceShortage, "no"),
			layer: hostssh.LayerBastion, reason: hostssh.ReasonSessionRefused},
		{name: "bastion that ends when it is to forward", at: script{onForward: func(<-chan struct{}) *refusal { return &refusal{cut: true} }},
			layer: hostssh.LayerBastion, reason: hostssh.ReasonConnectionLost, says: "the connection to bastion 127.0.0.1:"},

		{name: "host that refuses the connection", at: refuses(ssh.ConnectionFailed, "Connection refused"),
			layer: hostssh.LayerConnect, reason: hostssh.ReasonConnectionRefused, says: "from bastion 127.0.0.1:"},
		{name: "host that does not answer the bastion", at: refuses(ssh.ConnectionFailed, "Connection timed out"),
			layer: hostssh.LayerConnect, reason: hostssh.ReasonConnectionTimedOut},
		{name: "bastion that waits for the host", at: hangs, options: unhurried,
			layer: hostssh.LayerConnect, reason: hostssh.ReasonConnectionTimedOut, says: "from bastion 127.0.0.1:"},
		{name: "no route from the bastion", at: refuses(ssh.ConnectionFailed, "No route to host"),
			layer: hostssh.LayerConnect, reason: hostssh.ReasonHostUnreachable},
		{name: "host that is silent", host: script{raw: silent}, options: unhurried,
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonHandshakeTimedOut},
		{name: "host that closes", host: script{raw: func(net.Conn) {}},
			layer: hostssh.LayerHandshake, reason: hostssh.ReasonConnectionReset},
		{name: "another key of the host", change: func(t *hostssh.Target) { t.HostKeys = []ssh.PublicKey{stranger.PublicKey()} },
			layer: hostssh.LayerHostKey, reason: hostssh.ReasonHostKeyChanged},
		{name: "first contact of the host", change: func(t *hostssh.Target) { t.HostKeys = nil },
			layer: hostssh.LayerHostKey, reason: hostssh.ReasonHostKeyUnknown},
		{name: "host that refuses the key", host: script{refuseKeys: true},
			layer: hostssh.LayerAuth, reason: hostssh.ReasonCredentialsRefused},
		{name: "host that is silent at the login", host: script{wrap: after(writesBeforeAuth, silent)}, options: unhurried,
			layer: hostssh.LayerAuth, reason: hostssh.ReasonTimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host, bastion, target := behind(t, tt.host, tt.at)
			if tt.change != nil {
				tt.change(&target)
			}
			p := newPool(t, tt.options)
			err := p.Ping(testContext(t), target)
			e := wantError(t, err, tt.layer, tt.reason)
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
			var on hostssh.Layer
			if inner := e.OnBastion(); inner != nil {
				on = inner.Layer
			}
			want := host.target().Endpoint()
			if tt.layer == hostssh.LayerBastion {
				want = net.JoinHostPort(target.Bastion.Address, strconv.Itoa(target.Bastion.Port))
			} else if target.Address != "127.0.0.1" {
				want = target.Endpoint()
			}
			if on != tt.on || e.Address != want {
				t.Errorf("on the bastion at %q, address %q; want %q, %q", on, e.Address, tt.on, want)
			}
			if n := bastion.count(&bastion.accepted); tt.untouched && n != 0 {
				t.Errorf("the bastion was contacted")
			}
			if tt.layer == hostssh.LayerBastion && host.count(&host.accepted) != 0 {
				t.Errorf("the host was contacted")
			}
			eventually(t, "the connections to the bastion end", func() bool { return bastion.open() == 0 })
		})
	}
}

// refuseOnly refuses one address.
func refuseOnly(address string) func(netip.Addr) error {
	return func(a netip.Addr) error {
		if a.String() == address {
			return fmt.Errorf("%s is closed", a)
		}
		return nil
	}
}

// TestBastionCancel: a caller that gives up ends the dial at each stage, and nothing is left of it.
func TestBastionCancel(t *testing.T) {
	reached := make(chan struct{}, 1)
	reach := func() { reached <- struct{}{} }
	for name, tt := range map[string]struct {
		host, at script
		layers   []hostssh.Layer
	}{
		"bastion is silent": {at: script{raw: func(c net.Conn) { reach(); silent(c) }}, layers: []hostssh.Layer{hostssh.LayerBastion}},
		"bastion forwards": {at: script{onForward: func(gone <-chan struct{}) *refusal {
			reach()
			<-gone
			return &refusal{reason: ssh.ConnectionFailed}
		}}, layers: []hostssh.Layer{hostssh.LayerConnect}},
		// The host may know before us that it is connected to.
		"host is silent": {host: script{raw: func(c net.Conn) { reach(); silent(c) }}, layers: []hostssh.Layer{hostssh.LayerConnect, hostssh.LayerHandshake}},
	} {
		t.Run(name, func(t *testing.T) {
			_, bastion, target := behind(t, tt.host, tt.at)
			p := newPool(t, hostssh.Options{})
			ctx, cancel := context.WithCancel(testContext(t))
			ended := make(chan error, 1)
			go func() { ended <- p.Ping(ctx, target) }()
			<-reached
			cancel()
			e, ok := hostssh.AsError(<-ended)
			if !ok || e.Reason != hostssh.ReasonCanceled || !slices.Contains(tt.layers, e.Layer) {
				t.Errorf("got %v", e)
			}
			eventually(t, "the connections to the bastion end", func() bool { return bastion.open() == 0 })
			// The pool must have no goroutine left.
		})
	}
}

// TestBastionEnds: whatever goes through a bastion ends with its connection, and the next use makes another.
func TestBastionEnds(t *testing.T) {
	_, bastion, target := behind(t, script{}, script{})
	p := newPool(t, hostssh.Options{})
	session := start(t, testContext(t), p, target)
	alive(t, session)
	bastion.cut()
	_, err := io.ReadAll(session.Stdout())
	e := wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)
	if !strings.Contains(e.Error(), "the connection to bastion "+target.Bastion.Address) {
		t.Errorf("%q does not say that it was the bastion", e)
	}
	if err := p.Ping(testContext(t), target); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestBastionOutlivesNoHost: the end of the host is no end of the bastion, and ends the connection to it, too.
func TestBastionOutlivesNoHost(t *testing.T) {
	host, bastion, target := behind(t, script{}, script{})
	p := newPool(t, hostssh.Options{})
	session := start(t, testContext(t), p, target)
	alive(t, session)
	host.cut()
	_, err := io.ReadAll(session.Stdout())
	e := wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)
	if strings.Contains(e.Error(), "bastion") {
		t.Errorf("%q blames the bastion", e)
	}
	eventually(t, "the connection to the bastion ends", func() bool { return bastion.open() == 0 })
}

// TestBastionGoesSilent: keepalives of the connection to the host find it out.
func TestBastionGoesSilent(t *testing.T) {
	var stalled atomic.Bool
	_, _, target := behind(t, script{}, script{wrap: func(c net.Conn) net.Conn { return &stallingConn{c, &stalled} }})
	p := newPool(t, hostssh.Options{KeepAliveInterval: 200 * time.Millisecond, KeepAliveMisses: 2})
	session := start(t, testContext(t), p, target)
	alive(t, session)
	stalled.Store(true)
	_, err := io.ReadAll(session.Stdout())
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)
}

// stallingConn says nothing any more from when it is stalled.
type stallingConn struct {
	net.Conn
	stalled *atomic.Bool
}

func (c *stallingConn) Write(b []byte) (int, error) {
	if c.stalled.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestBastionIsReceivedOnce: what comes from a host is counted at the connection to the bastion, and not again.
func TestBastionIsReceivedOnce(t *testing.T) {
	const size = 4 << 20
	var received atomic.Int64
	_, _, target := behind(t, script{}, script{})
	p := newPool(t, hostssh.Options{Received: func(n int) { received.Add(int64(n)) }})
	if err := p.Run(testContext(t), target, "yes "+strconv.Itoa(size), nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := received.Load(); n < size || n > size*3/2 {
		t.Errorf("received %d bytes, of which %d are data", n, size)
	}
}

// TestBastionLogins: the hosts behind a bastion do not all come to it at once.
func TestBastionLogins(t *testing.T) {
	const hosts = 12
	bastion := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	var wg sync.WaitGroup
	for range hosts {
		target := newServer(t, script{}).target()
		target.Bastion = bastion.bastion()
		wg.Go(func() {
			if err := p.Ping(testContext(t), target); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// The server learns a moment later than we do that somebody is authenticated.
	if n, logins := bastion.count(&bastion.crowd), bastion.count(&bastion.accepted); n > 6 || logins != hosts {
		t.Errorf("%d of %d connections were not authenticated at a time", n, logins)
	}
}

func TestTraceThroughBastion(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     script
		change func(*hostssh.Target)
		want   []string
	}{
		{name: "everything works", want: []string{"DNS", "Bastion", "Connect", "Handshake", "HostKey", "Auth", "Session"}},
		{name: "refused login", at: script{refuseKeys: true}, want: []string{"DNS", "Bastion CredentialsRefused"}},
		{name: "closed port", change: func(t *hostssh.Target) { t.Port = closedPort() }, want: []string{"DNS", "Bastion", "Connect HostUnreachable"}},
		{name: "no forwarding", at: script{onForward: func(<-chan struct{}) *refusal { return &refusal{reason: ssh.Prohibited} }}, want: []string{"DNS", "Bastion ForwardRefused"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, bastion, target := behind(t, script{}, tt.at)
			if tt.change != nil {
				tt.change(&target)
			}
			tr := newPool(t, hostssh.Options{}).Trace(testContext(t), target, hostssh.TraceOptions{})
			got := layersOf(t, tr)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if loggedIn := !tt.at.refuseKeys; loggedIn != tr.Bastion.Address.IsValid() ||
				loggedIn && !bytes.Equal(tr.Bastion.HostKey.Marshal(), bastion.script.hostKeys[0].PublicKey().Marshal()) {
				t.Errorf("the bastion is %+v", tr.Bastion)
			}
			tr.Close()
			eventually(t, "the connection to the bastion ends", func() bool { return bastion.open() == 0 })
		})
	}
}

// TestSSHDBastion shows what OpenSSH says as a bastion.
func TestSSHDBastion(t *testing.T) {
	host := opensshd.Start(t, opensshd.Options{})
	for _, tt := range []struct {
		name   string
		config []string
		change func(*hostssh.Target)
		layer  hostssh.Layer
		reason hostssh.Reason
	}{
		{name: "forwards"},
		{name: "does not forward", config: []string{"AllowTcpForwarding no"}, layer: hostssh.LayerBastion, reason: hostssh.ReasonForwardRefused},
		{name: "forwards elsewhere", config: []string{"PermitOpen 192.0.2.1:22"}, layer: hostssh.LayerBastion, reason: hostssh.ReasonForwardRefused},
		{name: "closed port", change: func(t *hostssh.Target) { t.Port = closedPort() }, layer: hostssh.LayerConnect, reason: hostssh.ReasonConnectionRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bastion := opensshd.Start(t, opensshd.Options{Config: tt.config})
			target, at := sshdTarget(host), sshdTarget(bastion)
			target.Bastion = &hostssh.Bastion{Address: at.Address, Port: at.Port, User: at.User, Credential: at.Credential, HostKeys: at.HostKeys}
			if tt.change != nil {
				tt.change(&target)
			}
			p := newPool(t, hostssh.Options{})
			var out bytes.Buffer
			err := p.Run(testContext(t), target, "echo hello", nil, &out)
			if tt.layer != "" {
				wantError(t, err, tt.layer, tt.reason)
				return
			}
			if err != nil || out.String() != "hello\n" {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}
