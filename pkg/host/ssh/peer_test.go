// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// The tests that use this file run in a bubble, in which time passes when nothing else is left to do, over connections in
// memory: so they hold limits to the second, and can have a server answer at any moment, and in any order.

// peer is an SSH server at the other end of a pipe.
type peer struct {
	t       *testing.T
	key     ssh.Signer
	address string
	deaf    atomic.Bool  // answers no keepalives
	asked   atomic.Int32 // keepalives
	// config are the algorithms of the peer.
	config ssh.Config
	// open answers a request for a channel. Default: it accepts them.
	open func(ssh.NewChannel)
	// think is how long it takes to accept a key exchange, and then to accept the user.
	think time.Duration
	// raw is the network, and conn the connection on it once the user was accepted.
	raw  net.Conn
	conn ssh.Conn
}

// accept opens a channel.
func accept(n ssh.NewChannel) {
	if _, requests, err := n.Accept(); err == nil {
		go ssh.DiscardRequests(requests)
	}
}

// refuse opens none, as sshd does not when there are MaxSessions.
func refuse(n ssh.NewChannel) { _ = n.Reject(ssh.ConnectionFailed, "open failed") }

func newPeer(t *testing.T) *peer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, key: key, address: "192.0.2.1", open: accept}
}

func (s *peer) target() Target {
	return Target{Address: s.address, User: "admin", Credential: Credential{Password: "right"}, HostKeys: []PublicKey{s.key.PublicKey()}}
}

func (s *peer) serve(raw net.Conn) {
	config := &ssh.ServerConfig{Config: s.config, PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		pass(s.think)
		return nil, nil
	}}
	config.AddHostKey(s.key)
	pass(s.think)
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	s.raw, s.conn = raw, conn
	go func() {
		for r := range requests {
			s.asked.Add(1)
			if r.WantReply && !s.deaf.Load() {
				_ = r.Reply(false, nil)
			}
		}
	}()
	for n := range channels {
		s.open(n)
	}
}

// pipe is a connection in memory that holds what was written to it, as TCP does, and unlike net.Pipe alone.
func pipe() (near, far net.Conn) {
	near, a := net.Pipe()
	b, far := net.Pipe()
	relay := func(to, from net.Conn) {
		chunks := make(chan []byte, 1000)
		go func() {
			defer close(chunks)
			for {
				b := make([]byte, 32<<10)
				n, err := from.Read(b)
				if err != nil {
					return
				}
				chunks <- b[:n]
			}
		}()
		for b := range chunks {
			if _, err := to.Write(b); err != nil {
				break
			}
		}
		_, _ = to.Close(), from.Close()
	}
	go relay(a, b)
	go relay(b, a)
	return near, far
}

// login makes a connection.
func (s *peer) login(p *Pool) (*established, error) {
	near, far := pipe()
	go func() {
		defer far.Close()
		s.serve(far)
	}()
	target := s.target()
	h := handshake{pool: p, target: target, progress: &progress{}, algorithms: hostKeyPreference}
	h.verify = func(k ssh.PublicKey) error { return checkHostKey(k, target.HostKeys) }
	e, err := h.run(s.t.Context(), near)
	if err != nil {
		_ = near.Close()
	}
	return e, err
}

// join adds a connection to the pool.
func (s *peer) join(p *Pool) (*conn, error) {
	e, err := s.login(p)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hostLocked(s.target())
	p.takeRoomLocked(h.key.namespace)
	p.adoptLocked(h, e, true)
	return h.conns[len(h.conns)-1], nil
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of the bubble
}

// inBubble runs a test with a pool that has one connection to a peer.
func inBubble(t *testing.T, o Options, test func(t *testing.T, p *Pool, s *peer, c *conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, s := New(o), newPeer(t)
		defer p.Close()
		c, err := s.join(p)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the peer has set its fields
		test(t, p, s, c)
	})
}

// after lets time pass and says how many connections are open then.
func after(p *Pool, d time.Duration) int {
	pass(d)
	synctest.Wait()
	return p.Stats().Connections
}

// left is how many connections and hosts the pool knows once nothing more happens.
func left(p *Pool) (conns, hosts int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total.open + p.total.closing, len(p.hosts)
}

// reasonOf is that of an error of the package; empty: it is none.
func reasonOf(err error) Reason {
	if e, ok := AsError(err); ok {
		return e.Reason
	}
	return ""
}
