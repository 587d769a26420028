// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// patience bounds every wait of the tests. It is only ever used up by a failure.
const patience = 3 * time.Minute

// script is how a server misbehaves. The zero value does not.
type script struct {
	hostKeys []ssh.Signer // default: an Ed25519 key
	password string       // accepted besides the client key; empty means none
	// interactive offers the password as keyboard-interactive only.
	interactive bool
	refuseKeys  bool
	ciphers     []string
	// raw replaces SSH.
	raw func(net.Conn)
	// wrap changes what the server reads and writes.
	wrap func(net.Conn) net.Conn
	// maxSessions are opened on a connection; 0 means no limit, -1 none.
	maxSessions int
	// onOpen is called before a session is answered.
	onOpen     func()
	refuseExec bool
	refusePTY  bool
	// mute servers do not answer a request for a terminal.
	mute bool
	// onForward decides about a connection to a host, for a bastion, and may wait until the client is gone; nil: it is made.
	onForward func(gone <-chan struct{}) *refusal
	// deaf servers do not answer global requests such as keepalives.
	deaf bool
}

// refusal is the answer to a request for a connection.
type refusal struct {
	reason ssh.RejectionReason
	text   string
	// cut ends all connections instead.
	cut bool
}

// server is a small SSH server that follows a script.
type server struct {
	t      *testing.T
	script script
	l      net.Listener
	key    ssh.Signer // that clients log in with
	wg     sync.WaitGroup
	// locked is set when the key is accepted no more.
	locked atomic.Bool

	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	asked    int // authentication requests
	sessions int
	peak     int // most sessions of one connection at a time
	signals  []string
	ptys     []ptyRequest
	sizes    []string // of window changes
	asks     int      // global requests, that is keepalives
	forwards []string // where connections were requested to
	// entering are the connections that were accepted and are not authenticated, crowd the most of them at a time.
	entering, crowd int
}

func newServer(t *testing.T, sc script) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(sc.hostKeys) == 0 {
		sc.hostKeys = []ssh.Signer{newSigner(t, ssh.KeyAlgoED25519)}
	}
	s := &server{t: t, script: sc, l: l, key: newSigner(t, ssh.KeyAlgoED25519), conns: make(map[net.Conn]bool)}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	s.l.Close()
	s.cut()
	s.wg.Wait()
}

// cut closes all connections without a word.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *server) port() int { return s.l.Addr().(*net.TCPAddr).Port }

// target is a target that the server accepts.
func (s *server) target() hostssh.Target {
	return hostssh.Target{
		Address:    "127.0.0.1",
		Port:       s.port(),
		User:       "admin",
		Credential: hostssh.Credential{ID: "1", Signers: []ssh.Signer{s.key}},
		HostKeys:   []ssh.PublicKey{s.script.hostKeys[0].PublicKey()},
	}
}

func (s *server) count(field *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func (s *server) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.accepted++
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() {
				c.Close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
			if s.script.raw != nil {
				s.script.raw(c)
				return
			}
			s.serve(c)
		})
	}
}

func (s *server) config() *ssh.ServerConfig {
	c := &ssh.ServerConfig{MaxAuthTries: 6}
	c.Ciphers = s.script.ciphers
	for _, k := range s.script.hostKeys {
		c.AddHostKey(k)
	}
	c.AuthLogCallback = func(ssh.ConnMetadata, string, error) {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
	}
	errRefused := errors.New("refused")
	c.PublicKeyCallback = func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if s.script.refuseKeys || s.locked.Load() || !bytes.Equal(k.Marshal(), s.key.PublicKey().Marshal()) {
			return nil, errRefused
		}
		return nil, nil
	}
	if s.script.password == "" {
		return c
	}
	if s.script.interactive {
		c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 || answers[0] != s.script.password {
				return nil, errRefused
			}
			return nil, nil
		}
		return c
	}
	c.PasswordCallback = func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
		if string(p) != s.script.password {
			return nil, errRefused
		}
		return nil, nil
	}
	return c
}

func (s *server) serve(raw net.Conn) {
	c := raw
	if s.script.wrap != nil {
		c = s.script.wrap(raw)
	}
	s.mu.Lock()
	s.entering++
	s.crowd = max(s.crowd, s.entering)
	s.mu.Unlock()
	conn, channels, requests, err := ssh.NewServerConn(c, s.config())
	s.mu.Lock()
	s.entering--
	s.mu.Unlock()
	if err != nil {
		return
	}
	defer conn.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	gone := make(chan struct{})
	defer close(gone)
	wg.Go(func() {
		for r := range requests {
			s.mu.Lock()
			s.asks++
			s.mu.Unlock()
			if r.WantReply && !s.script.deaf {
				r.Reply(false, nil)
			}
		}
	})
	open := 0
	for n := range channels {
		if n.ChannelType() == "direct-tcpip" {
			wg.Go(func() { s.forward(n, gone) })
			continue
		}
		if s.script.onOpen != nil {
			s.script.onOpen()
		}
		s.mu.Lock()
		if limit := s.script.maxSessions; limit != 0 && open >= max(limit, 0) {
			s.mu.Unlock()
			n.Reject(ssh.ConnectionFailed, "open failed") // as sshd does
			continue
		}
		open++
		s.sessions++
		s.peak = max(s.peak, open)
		s.mu.Unlock()
		ch, reqs, err := n.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			s.session(raw, ch, reqs, func() {
				s.mu.Lock()
				open--
				s.sessions--
				s.mu.Unlock()
			})
		})
	}
}

// session runs one command. closed is called when the server no longer counts the
// session: before it tells the client, as sshd does.
func (s *server) session(raw net.Conn, ch ssh.Channel, reqs <-chan *ssh.Request, closed func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	hungUp := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { closed(); ch.Close() }) }
	defer end()
	defer close(hungUp)
	for r := range reqs {
		if r.Type == "signal" {
			var m struct{ Signal string }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				s.mu.Lock()
				s.signals = append(s.signals, m.Signal)
				s.mu.Unlock()
			}
		}
		if r.Type == "pty-req" || r.Type == "window-change" {
			s.terminal(r)
			continue
		}
		if r.Type != "exec" && r.Type != "shell" || s.script.refuseExec {
			if r.WantReply {
				r.Reply(false, nil)
			}
			continue
		}
		m := struct{ Command string }{"shell"}
		if r.Type == "exec" && ssh.Unmarshal(r.Payload, &m) != nil {
			return
		}
		r.Reply(true, nil)
		wg.Go(func() {
			if code := s.command(raw, ch, m.Command, hungUp); code >= 0 {
				ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
			}
			end()
		})
	}
}

// ptyRequest is the payload of pty-req.
type ptyRequest struct {
	Term                         string
	Columns, Rows, Width, Height uint32
	Modes                        string
}

func (s *server) terminal(r *ssh.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Type == "pty-req" {
		if s.script.mute {
			return
		}
		var m ptyRequest
		ok := ssh.Unmarshal(r.Payload, &m) == nil && !s.script.refusePTY
		s.ptys = append(s.ptys, m)
		r.Reply(ok, nil)
		return
	}
	var m struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(r.Payload, &m) == nil {
		s.sizes = append(s.sizes, fmt.Sprintf("%dx%d", m.Columns, m.Rows))
	}
}

// command is the shell of the server. A negative code means that none is sent.
func (s *server) command(raw net.Conn, ch ssh.Channel, line string, hungUp <-chan struct{}) int {
	name, arg, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(arg)
	switch name {
	case "echo":
		io.WriteString(ch, arg+"\n")
	case "cat":
		io.Copy(ch, ch)
	case "shell": // answers each line until one says exit
		lines := bufio.NewScanner(ch)
		for io.WriteString(ch, "> "); lines.Scan(); io.WriteString(ch, "> ") {
			if code, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
				n, _ := strconv.Atoi(code)
				return n
			}
			io.WriteString(ch, "you said "+lines.Text()+"\r\n")
		}
	case "both": // what comes in goes out on both
		io.Copy(io.MultiWriter(ch, ch.Stderr()), ch)
	case "exit":
		return n
	case "fail": // a message, and 3
		io.WriteString(ch.Stderr(), arg+"\n")
		return 3
	case "stderr": // n bytes of it, then 4
		ch.Stderr().Write(bytes.Repeat([]byte("e"), n-4))
		io.WriteString(ch.Stderr(), "END\n")
		io.WriteString(ch, "done\n")
		return 4
	case "yes": // n bytes
		block := bytes.Repeat([]byte("y"), 32<<10)
		for n > 0 {
			if _, err := ch.Write(block[:min(n, len(block))]); err != nil {
				return -1
			}
			n -= len(block)
		}
	case "sleep":
		<-hungUp
		return -1
	case "signal":
		ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal        string
			Dumped        bool
			Message, Lang string
		}{Signal: arg}))
		return -1
	case "vanish":
		return -1
	case "cut":
		raw.Close()
		<-hungUp
		return -1
	default:
		io.WriteString(ch.Stderr(), name+": not found\n")
		return 127
	}
	return 0
}

func (s *server) forward(n ssh.NewChannel, gone <-chan struct{}) {
	var m struct {
		Host       string
		Port       uint32
		Originator string
		From       uint32
	}
	if err := ssh.Unmarshal(n.ExtraData(), &m); err != nil {
		n.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	s.mu.Lock()
	s.forwards = append(s.forwards, net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port))))
	s.mu.Unlock()
	if s.script.onForward != nil {
		if no := s.script.onForward(gone); no != nil {
			if no.cut {
				s.cut()
				return
			}
			n.Reject(no.reason, no.text)
			return
		}
	}
	c, err := net.Dial("tcp", net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port))))
	if err != nil {
		n.Reject(ssh.ConnectionFailed, "connect failed")
		return
	}
	defer c.Close()
	ch, reqs, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	go ssh.DiscardRequests(reqs)
	copied := make(chan struct{}, 2)
	go func() { io.Copy(c, ch); c.(*net.TCPConn).CloseWrite(); copied <- struct{}{} }()
	go func() { io.Copy(ch, c); ch.CloseWrite(); copied <- struct{}{} }()
	<-copied
	<-copied
}

func newSigner(t testing.TB, keyType string) ssh.Signer {
	t.Helper()
	var private any
	var err error
	switch keyType {
	case ssh.KeyAlgoED25519:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case ssh.KeyAlgoECDSA256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ssh.KeyAlgoRSA:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		t.Fatalf("unknown type of key %q", keyType)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// newPool returns a pool that is closed, and must have no goroutine left, at the end of the test.
func newPool(t testing.TB, o hostssh.Options) *hostssh.Pool {
	t.Helper()
	p := hostssh.New(o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		// What Close does not wait for are a few goroutines in their last instructions.
		deadline := time.Now().Add(patience)
		for stacks := poolGoroutines(); stacks != ""; stacks = poolGoroutines() {
			if time.Now().After(deadline) {
				t.Fatalf("goroutines of the pool are left after Close:\n%s", stacks)
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // between looks at the condition
		}
	})
	return p
}

// poolGoroutines returns the stacks that were started by a method of this package.
func poolGoroutines() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "created by") && strings.Contains(stack, "pkg/host/ssh.(*") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // between looks at the condition
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantError checks layer and reason, and returns the error for more.
func wantError(t testing.TB, err error, layer hostssh.Layer, reason hostssh.Reason) *hostssh.Error {
	t.Helper()
	e, ok := hostssh.AsError(err)
	if !ok {
		t.Fatalf("got error %v (%T), want %s/%s", err, err, layer, reason)
	}
	if e.Layer != layer || e.Reason != reason || e.Address == "" {
		t.Fatalf("got %s/%s at %q (%v), want %s/%s", e.Layer, e.Reason, e.Address, err, layer, reason)
	}
	return e
}
