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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestRunsShareConnections(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	for range 20 {
		var out bytes.Buffer
		if err := p.Run(testContext(t), s.target(), "echo hello", nil, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "hello\n" {
			t.Fatalf("got %q", got)
		}
	}
	if n := s.count(&s.accepted); n != 1 {
		t.Errorf("20 commands in a row used %d connections, want 1", n)
	}
}

// TestConnectionsEnd: a connection that is used all the time is replaced after a thousand sessions, and the one that is open then is not cut off.
func TestConnectionsEnd(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	for range 999 {
		if err := p.Run(testContext(t), s.target(), "echo hello", nil, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	last := start(t, t.Context(), p, s.target())
	if n := s.count(&s.accepted); n != 1 {
		t.Fatalf("a thousand sessions used %d connections", n)
	}
	if err := p.Run(testContext(t), s.target(), "echo hello", nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	alive(t, last)
	last.Close()
	eventually(t, "the first connection is closed", func() bool { return p.Stats().Connections == 1 })
	if n := s.count(&s.accepted); n != 2 {
		t.Errorf("one session more used %d connections, want another one", n)
	}
}

// TestLoginSaysWhere: of a name, what counts is where the connection leads to that is there, whatever DNS says by now.
func TestLoginSaysWhere(t *testing.T) {
	s := newServer(t, script{})
	names := &resolver{addrs: []string{"127.0.0.1"}}
	p := newPool(t, hostssh.Options{Resolver: names})
	target := s.target()
	target.Address = "host.example.com"
	for range 2 {
		peer, err := p.Login(testContext(t), target)
		if err != nil || peer.Address.String() != "127.0.0.1" || !bytes.Equal(peer.HostKey.Marshal(), s.script.hostKeys[0].PublicKey().Marshal()) {
			t.Fatalf("%+v, %v", peer, err)
		}
		names.addrs = []string{"127.0.0.2"}
	}
	if n := p.Stats().Dials; n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

// TestLoginSaysWithWhat: of several keys, what counts is the one that the server takes.
func TestLoginSaysWithWhat(t *testing.T) {
	s := newServer(t, script{password: "secret"})
	p := newPool(t, hostssh.Options{})
	good := s.target().Credential.Signers[0]
	for name, test := range map[string]struct {
		signers []ssh.Signer
		want    ssh.PublicKey
	}{
		"the second": {[]ssh.Signer{newSigner(t, ssh.KeyAlgoRSA), good, newSigner(t, ssh.KeyAlgoECDSA256)}, good.PublicKey()},
		"a password": {[]ssh.Signer{newSigner(t, ssh.KeyAlgoED25519)}, nil},
	} {
		target := s.target()
		target.Credential = hostssh.Credential{Signers: test.signers, Password: "secret"}
		peer, err := p.Login(testContext(t), target)
		if err != nil || (peer.Accepted == nil) != (test.want == nil) || test.want != nil && !bytes.Equal(peer.Accepted.Marshal(), test.want.Marshal()) {
			t.Errorf("%s: %+v, %v", name, peer, err)
		}
	}
}

func TestTargetsThatDifferDoNotShare(t *testing.T) {
	s := newServer(t, script{password: "secret"})
	other := newSigner(t, ssh.KeyAlgoECDSA256).PublicKey()
	tests := []struct {
		name   string
		change func(*hostssh.Target)
		shared bool
	}{
		{"the same", func(*hostssh.Target) {}, true},
		{"host keys in another order", func(t *hostssh.Target) { slices.Reverse(t.HostKeys) }, true},
		{"a repeated host key", func(t *hostssh.Target) { t.HostKeys = append(t.HostKeys, t.HostKeys[0]) }, true},
		{"another user", func(t *hostssh.Target) { t.User = "other" }, false},
		{"another credential", func(t *hostssh.Target) { t.Credential.ID = "2" }, false},
		{"another derived ID", func(t *hostssh.Target) { t.Credential.ID, t.Credential.Password = "", "secret" }, false},
		{"fewer host keys", func(t *hostssh.Target) { t.HostKeys = t.HostKeys[:1] }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, hostssh.Options{})
			first := s.target()
			first.HostKeys = []ssh.PublicKey{s.script.hostKeys[0].PublicKey(), other}
			second := first
			second.HostKeys = slices.Clone(first.HostKeys)
			tt.change(&second)
			for _, target := range []hostssh.Target{first, second} {
				if err := p.Ping(testContext(t), target); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.Stats().Connections == 1; got != tt.shared {
				t.Errorf("shared: %v, want %v", got, tt.shared)
			}
		})
	}
}

// start runs a command that lasts until it is closed.
func start(t testing.TB, ctx context.Context, p *hostssh.Pool, target hostssh.Target) *hostssh.Process {
	t.Helper()
	proc, err := p.Start(ctx, target, "cat")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	return proc
}

// alive checks that a "cat" answers.
func alive(t testing.TB, proc *hostssh.Process) {
	t.Helper()
	if _, err := io.WriteString(proc.Stdin(), "ping"); err != nil {
		t.Fatalf("write: %v", err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(proc.Stdout(), got); err != nil || string(got) != "ping" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestSessionsSpreadOverConnections(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 2, MaxConnsPerHost: 3})
	var procs []*hostssh.Process
	for range 6 {
		procs = append(procs, start(t, t.Context(), p, s.target()))
	}
	if got := p.Stats(); got.Connections != 3 || got.Sessions != 6 {
		t.Errorf("got %d connections with %d sessions, want 3 with 6", got.Connections, got.Sessions)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Start(ctx, s.target(), "cat")
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonSessionLimitReached)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}

	waiting := make(chan error, 1)
	go func() { waiting <- p.Run(testContext(t), s.target(), "echo late", nil, nil) }()
	eventually(t, "the seventh waits", func() bool { return p.Stats().Waiting == 1 })
	procs[3].Close()
	if err := <-waiting; err != nil {
		t.Errorf("after a session was closed: %v", err)
	}
	for i, proc := range procs {
		if i != 3 {
			alive(t, proc)
		}
	}
}

func TestLowerSessionLimitIsLearned(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		t.Run(fmt.Sprintf("parallel=%v", parallel), func(t *testing.T) {
			s := newServer(t, script{maxSessions: 3})
			p := newPool(t, hostssh.Options{MaxSessionsPerConn: 8, MaxConnsPerHost: 3})
			procs := make([]*hostssh.Process, 9)
			var wg sync.WaitGroup
			for i := range procs {
				open := func() {
					proc, err := p.Start(testContext(t), s.target(), "cat")
					if err != nil {
						t.Errorf("session %d: %v", i, err)
						return
					}
					procs[i] = proc
				}
				if parallel {
					wg.Go(open)
				} else {
					open()
				}
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			if got := p.Stats(); got.Connections != 3 || got.Sessions != 9 || got.LimitsLearned == 0 {
				t.Errorf("got %+v, want 3 connections with 9 sessions and a learned limit", got)
			}
			for _, proc := range procs {
				alive(t, proc)
				proc.Close()
			}
		})
	}
}

func TestManyRunsOverFewSessions(t *testing.T) {
	s := newServer(t, script{maxSessions: 5})
	p := newPool(t, hostssh.Options{MaxConnsPerHost: 2})
	const runs = 1000
	var failed atomic.Int32
	var wg sync.WaitGroup
	ctx := testContext(t)
	for i := range runs {
		wg.Go(func() {
			want := fmt.Sprintf("run %d", i)
			var out bytes.Buffer
			if err := p.Run(ctx, s.target(), "cat", []byte(want), &out); err != nil || out.String() != want {
				if failed.Add(1) <= 3 {
					t.Errorf("%s: got %q, %v", want, out.String(), err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.count(&s.accepted); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	if peak := s.count(&s.peak); peak != 5 {
		t.Errorf("at most %d sessions of a connection were in use, want all 5", peak)
	}
	eventually(t, "all sessions are given back", func() bool {
		st := p.Stats()
		return st.Sessions == 0 && st.Waiting == 0 && st.Idle == st.Connections
	})
}

// gate holds the first answer of a server back: the client is in the handshake until the gate opens.
type gate struct {
	opened  chan struct{}
	arrived atomic.Int32 // clients that wait at it
	once    sync.Once
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

func newGatedServer(t *testing.T, sc script) (*server, *gate) {
	g := &gate{opened: make(chan struct{})}
	sc.wrap = func(c net.Conn) net.Conn { return gatedConn{c, g} }
	s := newServer(t, sc)
	t.Cleanup(g.open) // or the server could not stop
	return s, g
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.gate.opened:
	default:
		c.gate.arrived.Add(1)
		<-c.gate.opened
	}
	return n, err
}

func TestCallersShareADial(t *testing.T) {
	s, g := newGatedServer(t, script{})
	p := newPool(t, hostssh.Options{})

	first, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- p.Ping(first, s.target()) }()
	eventually(t, "the dial begins", func() bool { return g.arrived.Load() == 1 })
	stayed := make(chan error, 5)
	for range cap(stayed) {
		go func() { stayed <- p.Ping(testContext(t), s.target()) }()
	}
	eventually(t, "all wait", func() bool { return p.Stats().Waiting == 6 })

	leave() // whoever came first
	wantError(t, <-left, hostssh.LayerHandshake, hostssh.ReasonCanceled)
	g.open()
	for range cap(stayed) {
		if err := <-stayed; err != nil {
			t.Errorf("a caller that stayed: %v", err)
		}
	}
	if n := s.count(&s.accepted); n != 1 {
		t.Errorf("%d dials, want 1", n)
	}
}

func TestDialEndsWhenAllHaveLeft(t *testing.T) {
	s, g := newGatedServer(t, script{})
	p := newPool(t, hostssh.Options{HandshakeTimeout: time.Hour})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 2)
	for range cap(left) {
		go func() { left <- p.Ping(ctx, s.target()) }()
	}
	eventually(t, "the dial begins", func() bool { return g.arrived.Load() == 1 && p.Stats().Waiting == 2 })
	leave()
	for range cap(left) {
		wantError(t, <-left, hostssh.LayerHandshake, hostssh.ReasonCanceled)
	}
	eventually(t, "the dial ends", func() bool { return p.Stats().Dialing == 0 })

	// The next caller is not affected.
	g.open()
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Error(err)
	}
}

func TestRefusedSessionsAreJudgedTogether(t *testing.T) {
	s, g := newGatedServer(t, script{maxSessions: -1})
	p := newPool(t, hostssh.Options{})
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() { ended <- p.Ping(testContext(t), s.target()) }()
	}
	eventually(t, "all wait", func() bool { return g.arrived.Load() == 1 && p.Stats().Waiting == cap(ended) })
	g.open()
	for range cap(ended) {
		wantError(t, <-ended, hostssh.LayerSession, hostssh.ReasonSessionRefused)
	}
	if st := p.Stats(); st.Dials != 1 || st.LimitsLearned != 0 {
		t.Errorf("%d dials, %d learned limits; the first refusal should have been enough", st.Dials, st.LimitsLearned)
	}
}

func TestSlowHostDelaysNobodyElse(t *testing.T) {
	slow, quick := newServer(t, script{raw: silent}), newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Ping(ctx, slow.target()) }()
	eventually(t, "the slow host is dialed", func() bool { return slow.count(&slow.accepted) == 1 })
	if err := p.Ping(testContext(t), quick.target()); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
}

func TestFurtherConnectionFails(t *testing.T) {
	// The host takes one connection and no more, as behind a firewall that counts.
	var accepted atomic.Int32
	s := newServer(t, script{wrap: func(c net.Conn) net.Conn {
		if accepted.Add(1) > 1 {
			c.Close()
		}
		return c
	}})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 1})
	proc := start(t, t.Context(), p, s.target())
	waiting := make(chan error, 1)
	go func() { waiting <- p.Run(testContext(t), s.target(), "echo hello", nil, nil) }()
	eventually(t, "the second connection fails", func() bool { return p.Stats().DialFailures[hostssh.ReasonConnectionReset] == 1 })
	proc.Close()
	if err := <-waiting; err != nil {
		t.Errorf("the waiter was not served by the working connection: %v", err)
	}
}

// TestDecisiveFailure: credentials that are refused are told at once, although a connection still works.
func TestDecisiveFailure(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 1})
	proc := start(t, t.Context(), p, s.target())
	s.locked.Store(true)
	wantError(t, p.Ping(testContext(t), s.target()), hostssh.LayerAuth, hostssh.ReasonCredentialsRefused)
	alive(t, proc)
}

func TestContextEndsOnlyItsOwn(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	other := start(t, t.Context(), p, s.target())

	ctx, cancel := context.WithCancel(t.Context())
	mine, err := p.Start(ctx, s.target(), "sleep")
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := mine.Stdout().Read(make([]byte, 1))
		read <- err
	}()
	cancel()
	wantError(t, mine.Wait(), hostssh.LayerSession, hostssh.ReasonCanceled)
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("a read that waited got %v, want context.Canceled", err)
	}
	if _, err := mine.Stdin().Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a write got %v, want context.Canceled", err)
	}
	alive(t, other)
	eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 1 })
	eventually(t, "the server is asked to end the command", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Equal(s.signals, []string{"TERM"})
	})
	if n := s.count(&s.accepted); n != 1 {
		t.Errorf("%d connections, want the one that both shared", n)
	}
}

func TestContextEndsAWaitForTheServer(t *testing.T) {
	opening, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := newServer(t, script{onOpen: func() {
		once.Do(func() { close(opening) })
		<-release
	}})
	p := newPool(t, hostssh.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, s.target(), "echo", nil, nil) }()
	<-opening
	cancel()
	wantError(t, <-ended, hostssh.LayerSession, hostssh.ReasonCanceled)
	close(release)
	eventually(t, "the late session is given back", func() bool { return p.Stats().Sessions == 0 })
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Error(err)
	}
}

func TestEndedContext(t *testing.T) {
	p := newPool(t, hostssh.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Ping(ctx, hostssh.Target{Address: "127.0.0.1"})
	wantError(t, err, hostssh.LayerConnect, hostssh.ReasonCanceled)
	if d := p.Stats().Dials; d != 0 {
		t.Errorf("%d dials, want none", d)
	}
}

func TestKeepAliveEndsASilentConnection(t *testing.T) {
	s := newServer(t, script{deaf: true})
	p := newPool(t, hostssh.Options{KeepAliveInterval: 200 * time.Millisecond, KeepAliveMisses: 2}) // both start before that
	procs := []*hostssh.Process{start(t, t.Context(), p, s.target()), start(t, t.Context(), p, s.target())}
	for _, proc := range procs {
		err := proc.Wait()
		wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)
		if !strings.Contains(err.Error(), "did not answer for 600ms") {
			t.Errorf("%q does not say for how long", err)
		}
	}
	eventually(t, "the connection is gone", func() bool { return p.Stats().Connections == 0 && p.Stats().Lost == 1 })
}

func TestKeepAliveKeepsAnAnsweringConnection(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{KeepAliveInterval: 2 * time.Millisecond, KeepAliveMisses: 1000})
	proc := start(t, t.Context(), p, s.target())
	eventually(t, "twenty keepalives", func() bool { return s.count(&s.asks) >= 20 })
	alive(t, proc)
}

func TestTrafficIsASignOfLife(t *testing.T) {
	s := newServer(t, script{deaf: true})
	p := newPool(t, hostssh.Options{KeepAliveInterval: 50 * time.Millisecond, KeepAliveMisses: 20})
	proc := start(t, t.Context(), p, s.target())
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		alive(t, proc)
	}
}

func TestConnectionLost(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	err := p.Run(testContext(t), s.target(), "cut", nil, nil)
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)

	proc := start(t, t.Context(), p, s.target())
	s.cut()
	_, err = io.ReadAll(proc.Stdout())
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionLost)
	wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonConnectionLost)
	eventually(t, "the connection is gone", func() bool { return p.Stats().Connections == 0 })
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Errorf("the next use does not connect anew: %v", err)
	}
}

func TestLostIdleConnectionIsReplaced(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	for range 20 {
		if err := p.Ping(testContext(t), s.target()); err != nil {
			t.Fatal(err)
		}
		s.cut() // the pool may or may not have noticed when it is used next
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{IdleTimeout: 50 * time.Millisecond})
	proc := start(t, t.Context(), p, s.target())
	time.Sleep(200 * time.Millisecond) //nolint:forbidigo // what must not happen takes time
	alive(t, proc)
	proc.Close()
	eventually(t, "the idle connection is closed", func() bool {
		st := p.Stats()
		return st.Connections == 0 && st.IdleClosed == 1
	})
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Error(err)
	}
}

func TestMaxConns(t *testing.T) {
	a, b, c := newServer(t, script{}), newServer(t, script{}), newServer(t, script{})
	p := newPool(t, hostssh.Options{MaxConns: 2})
	for _, s := range []*server{a, b} {
		if err := p.Ping(testContext(t), s.target()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both are idle", func() bool { return p.Stats().Idle == 2 })
	busy := start(t, t.Context(), p, a.target()) // now b is the one that was idle for longest
	third := start(t, t.Context(), p, c.target())
	alive(t, busy)
	if got := p.Stats().Connections; got != 2 {
		t.Errorf("%d connections, want 2", got)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, p.Ping(ctx, b.target()), hostssh.LayerConnect, hostssh.ReasonLimitReached)

	waiting := make(chan error, 1)
	go func() { waiting <- p.Ping(testContext(t), b.target()) }()
	eventually(t, "b waits", func() bool { return p.Stats().Waiting == 1 })
	third.Close()
	if err := <-waiting; err != nil {
		t.Errorf("b was not let in when c became idle: %v", err)
	}
	for range 3 {
		if err := p.Ping(testContext(t), b.target()); err != nil {
			t.Error(err)
		}
		eventually(t, "b is idle", func() bool { return p.Stats().Idle == 1 })
	}
	if n := b.count(&b.accepted); n != 2 {
		t.Errorf("b has had %d connections: that of the second time was closed for nobody", n)
	}
	alive(t, busy)
}

// TestForget: an owner ends all that is its own, however the host was logged in to, and nothing of
// another owner who logs in to the same host in the same way.
func TestForget(t *testing.T) {
	s := newServer(t, script{})
	mine, theirs := s.target(), s.target()
	mine.Owner, theirs.Owner = "mine", "theirs"
	before := mine
	before.Credential.ID = "before it was changed"
	p := newPool(t, hostssh.Options{})
	ended := []*hostssh.Process{start(t, t.Context(), p, mine), start(t, t.Context(), p, before)}
	stays := start(t, t.Context(), p, theirs)

	p.Forget("somebody else")
	for _, proc := range append(ended, stays) {
		alive(t, proc)
	}
	p.Forget("mine")
	for _, proc := range ended {
		wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonConnectionLost)
	}
	alive(t, stays)
	if err := p.Ping(testContext(t), mine); err != nil {
		t.Errorf("the next use: %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s, slow := newServer(t, script{}), newServer(t, script{raw: silent})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 1, MaxConnsPerHost: 1})
	proc := start(t, t.Context(), p, s.target())
	// Output that nobody reads must not keep Close waiting.
	if _, err := io.WriteString(proc.Stdin(), strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Stdout().Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	go func() { ended <- p.Ping(context.Background(), s.target()) }()
	go func() { ended <- p.Ping(context.Background(), slow.target()) }()
	go func() {
		_, err := p.HostKey(context.Background(), slow.target())
		ended <- err
	}()
	eventually(t, "all wait", func() bool { return p.Stats().Waiting == 2 && slow.count(&slow.accepted) == 2 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for range cap(ended) {
		if e, ok := hostssh.AsError(<-ended); !ok || e.Reason != hostssh.ReasonPoolClosed {
			t.Errorf("got %v, want PoolClosed", e)
		}
	}
	wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonPoolClosed)
	wantError(t, p.Ping(context.Background(), s.target()), hostssh.LayerConnect, hostssh.ReasonPoolClosed)
	_, err := p.HostKey(context.Background(), s.target())
	wantError(t, err, hostssh.LayerConnect, hostssh.ReasonPoolClosed)
}

func TestHostKeyRefusalFailsAllWaitersAtOnce(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, hostssh.Options{})
	target := s.target()
	target.HostKeys = nil
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := p.Ping(testContext(t), target)
			if e, ok := hostssh.AsError(err); !ok || e.Reason != hostssh.ReasonHostKeyUnknown {
				t.Errorf("got %v, want HostKeyUnknown", err)
			}
		})
	}
	wg.Wait()
}
