// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package sshserver is an SSH server that answers as OpenSSH for Windows does and can be
// told to misbehave. It is the server of the in-process stand-ins and, compiled for
// Windows, of the service inside a Wine host. What a command or a file is, is its user's
// matter. It does not listen: it serves connections that somebody else accepted.
package sshserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

// Version is the identification string of Windows Server 2022's optional feature.
const Version = "SSH-2.0-OpenSSH_for_Windows_9.5"

// Server is what the connections of one host have in common. Its functions are called
// concurrently and anew for each connection, session or command, so that what they answer
// may change at any time.
type Server struct {
	// Fault says what is wrong with the host. Only the faults from StageAuth on, and
	// those of sessions and commands, are the server's.
	Fault func() fault.Fault
	// HostKey is the key that the host presents.
	HostKey func() (ssh.Signer, error)
	// Authorized reports whether user may log in with a key.
	Authorized func(user string, key ssh.PublicKey) bool
	// Password reports whether user may log in with a password. Nil: the method is not
	// offered.
	Password func(user, password string) bool
	// OnCommand is told of every command line that a client asks for, before anything
	// else happens to it. A shell is the empty line.
	OnCommand func(line string)
	// Exec runs a command, or a shell, to its end and returns its exit code.
	Exec func(ctx context.Context, c Command) uint32
	// OnRun is told 1 when a command or shell begins and -1 when nothing of it is left.
	OnRun func(change int)
	// SFTP serves the subsystem until the client ends it or ctx is done.
	SFTP func(ctx context.Context, rw io.ReadWriteCloser) error
	// Dial connects to a TCP port of the host's own for a direct-tcpip channel.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Logf takes what an administrator would look for in the server's log.
	Logf func(format string, args ...any)
}

// Command is a command line that a client asked for.
type Command struct {
	// Line is as the client sent it. Empty: an interactive shell.
	Line string
	// User is who logged in.
	User string
	// Stdin ends when the client closes its side.
	Stdin io.Reader
	// Stdout and Stderr go to the client; with a terminal they are the same.
	Stdout, Stderr io.Writer
	// Terminal is what the client asked for; nil: none.
	Terminal *Terminal
}

// Terminal is a client's terminal.
type Terminal struct {
	// Term is its type.
	Term string

	mu            sync.Mutex
	columns, rows uint32
}

// Size is the size that the terminal has now, in characters.
func (t *Terminal) Size() (columns, rows uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.columns, t.rows
}

func (t *Terminal) resize(columns, rows uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.columns, t.rows = columns, rows
}

// Conn serves one connection and returns when it and everything that it started have
// ended, which is soon after ctx is done or the client is gone.
func (s *Server) Conn(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The handshake reads all the time; a client that leaves is noticed also while a
	// fault holds up the answer.
	watched := &watchedConn{Conn: nc, gone: cancel}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()

	key, err := s.HostKey()
	if err != nil {
		s.Logf("host key: %v", err)
		return
	}
	conn, chans, reqs, err := ssh.NewServerConn(watched, s.config(ctx, nc, key))
	if err != nil {
		s.Logf("%v: handshake: %v", nc.RemoteAddr(), err)
		return
	}
	c := &connection{Server: s, conn: conn, raw: nc}
	defer c.running.Wait()
	defer cancel()
	defer func() { _ = conn.Close() }()
	for {
		select {
		case req, ok := <-reqs:
			if !ok {
				reqs = nil
				continue
			}
			if req.WantReply { // keep-alives; OpenSSH, too, answers what it does not know with a failure
				_ = req.Reply(false, nil)
			}
		case ch, ok := <-chans:
			if !ok {
				return
			}
			c.open(ctx, ch)
		}
	}
}

func (s *Server) config(ctx context.Context, nc net.Conn, key ssh.Signer) *ssh.ServerConfig {
	sc := &ssh.ServerConfig{
		ServerVersion: Version,
		MaxAuthTries:  6, // https://man.openbsd.org/sshd_config#MaxAuthTries
		PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if s.atAuth(ctx, nc) && s.Authorized(m.User(), k) {
				return &ssh.Permissions{}, nil
			}
			return nil, errDenied
		},
	}
	if s.Password != nil {
		sc.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if s.atAuth(ctx, nc) && s.Password(m.User(), string(password)) {
				return &ssh.Permissions{}, nil
			}
			return nil, errDenied
		}
	}
	sc.AddHostKey(key)
	return sc
}

var errDenied = errors.New("permission denied")

// atAuth lets the faults of authentication strike and reports whether it may go on.
func (s *Server) atAuth(ctx context.Context, nc net.Conn) bool {
	f := s.Fault()
	return strike(ctx, nc, f, fault.StageAuth) && !f.DenyAuth
}

// strike lets the fault of a stage happen, if f has one, and reports whether it did not.
func strike(ctx context.Context, nc net.Conn, f fault.Fault, stage fault.Stage) bool {
	switch stage {
	case f.ResetAt:
		Reset(nc)
		return false
	case f.HangAt:
		<-ctx.Done()
		return false
	default:
		return true
	}
}

// Reset closes a connection with RST where its kind can do that, and plainly otherwise.
func Reset(nc net.Conn) {
	switch c := nc.(type) {
	case interface{ Reset() }:
		c.Reset()
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	default:
		_ = c.Close()
	}
}

// watchedConn tells when the peer is gone.
type watchedConn struct {
	net.Conn
	gone context.CancelFunc
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

// connection is one authenticated client.
type connection struct {
	*Server
	conn     *ssh.ServerConn
	raw      net.Conn
	running  sync.WaitGroup // channels
	sessions atomic.Int64
}

// open answers a request for a channel. Reasons and texts of refusals are OpenSSH's.
func (c *connection) open(ctx context.Context, nch ssh.NewChannel) {
	switch nch.ChannelType() {
	case "session":
		c.running.Go(func() {
			f := c.Fault()
			if !strike(ctx, c.raw, f, fault.StageSession) {
				return
			}
			defer c.sessions.Add(-1)
			if c.sessions.Add(1) > int64(f.SessionLimit()) {
				_ = nch.Reject(ssh.ConnectionFailed, "open failed")
				return
			}
			if ch, reqs, err := nch.Accept(); err == nil {
				c.session(ctx, ch, reqs)
			}
		})
	case "direct-tcpip":
		c.running.Go(func() { c.forward(ctx, nch) })
	default:
		_ = nch.Reject(ssh.UnknownChannelType, "unknown channel type")
	}
}

// session answers the requests of one session until its channel is closed.
func (c *connection) session(ctx context.Context, ch ssh.Channel, reqs <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var program sync.WaitGroup
	defer program.Wait()
	defer func() { _ = ch.Close() }()
	// OpenSSH for Windows ends a command that has no terminal when it is sent a signal, and not with its session; here it
	// also ends with its connection.
	outlives := false
	defer func() {
		if !outlives {
			cancel()
		}
	}()
	started := false // one program per session, RFC 4254 section 6.5
	var terminal *Terminal
	for r := range reqs {
		var payload struct{ Text string }
		var run func()
		ok := false
		switch r.Type {
		case "exec", "shell":
			if r.Type == "exec" && ssh.Unmarshal(r.Payload, &payload) != nil {
				break
			}
			f := c.Fault() // whoever knows of the command may change it
			c.OnCommand(payload.Text)
			if !f.MatchesExec(payload.Text) {
				f = fault.Fault{}
			}
			if !strike(ctx, c.raw, f, fault.StageExec) {
				return
			}
			command := c.command(ch, payload.Text, terminal)
			run = func() { c.exec(ctx, ch, f, command) }
			outlives = r.Type == "exec" && terminal == nil
		case "subsystem":
			if ssh.Unmarshal(r.Payload, &payload) == nil && payload.Text == "sftp" {
				run = func() { c.sftp(ctx, ch) }
			}
		case "signal":
			cancel() // as TerminateProcess does, whichever signal it is
		case "pty-req":
			if !started && terminal == nil {
				terminal = newTerminal(r.Payload)
				ok = terminal != nil
			}
		case "window-change":
			var size struct{ Columns, Rows, Width, Height uint32 }
			if terminal != nil && ssh.Unmarshal(r.Payload, &size) == nil {
				terminal.resize(size.Columns, size.Rows)
				ok = true
			}
		}
		run, started = once(run, started)
		if r.WantReply {
			_ = r.Reply(ok || run != nil, nil)
		}
		if run != nil { // only now: the answer comes before whatever the program does
			program.Go(run)
		}
	}
}

// once lets the first program of a session run, and no other.
func once(run func(), started bool) (func(), bool) {
	if started {
		return nil, true
	}
	return run, run != nil
}

// newTerminal reads the payload of pty-req; nil if it cannot be read.
func newTerminal(payload []byte) *Terminal {
	var m struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if ssh.Unmarshal(payload, &m) != nil {
		return nil
	}
	return &Terminal{Term: m.Term, columns: m.Columns, rows: m.Rows}
}

func (c *connection) command(ch ssh.Channel, line string, terminal *Terminal) Command {
	command := Command{Line: line, User: c.conn.User(), Stdin: ch, Stdout: ch, Stderr: ch.Stderr(), Terminal: terminal}
	if terminal != nil {
		command.Stderr = ch
	}
	return command
}

func (c *connection) exec(ctx context.Context, ch ssh.Channel, f fault.Fault, command Command) {
	c.OnRun(1)
	defer c.OnRun(-1)
	switch {
	case f.ExecHang:
		<-ctx.Done()
		return
	case f.ExecExit != 0:
		exit(ch, uint32(f.ExecExit))
		return
	}
	t0 := time.Now()
	code := c.Exec(ctx, command)
	c.Logf("exec %q: exit code %d after %v", command.Line, code, time.Since(t0).Round(time.Millisecond))
	exit(ch, code)
}

func (c *connection) sftp(ctx context.Context, ch ssh.Channel) {
	if err := c.SFTP(ctx, ch); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		c.Logf("sftp: %v", err)
	}
	// No CloseWrite, as in exit: answers that the SFTP server has begun may still be on
	// their way, and it must not be called while they are written.
	end(ch, 0)
}

// exit ends a session in the order in which OpenSSH does.
func exit(ch ssh.Channel, code uint32) {
	_ = ch.CloseWrite()
	end(ch, code)
}

func end(ch ssh.Channel, code uint32) {
	_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, code))
	_ = ch.Close()
}

// forward serves a direct-tcpip channel, RFC 4254 section 7.2.
func (c *connection) forward(ctx context.Context, nch ssh.NewChannel) {
	var d struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nch.ExtraData(), &d); err != nil || d.Port > 65535 {
		_ = nch.Reject(ssh.ConnectionFailed, "invalid direct-tcpip request")
		return
	}
	target, err := c.Dial(ctx, d.Host, int(d.Port))
	if err != nil {
		c.Logf("direct-tcpip to %s: %v", net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))), err)
		_ = nch.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	ch, reqs, err := nch.Accept()
	if err != nil {
		_ = target.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() {
		_ = target.Close()
		_ = ch.Close()
	})
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(reqs) })
	var copies sync.WaitGroup
	copies.Go(func() {
		_, _ = io.Copy(ch, target)
		_ = ch.CloseWrite()
	})
	copies.Go(func() {
		_, _ = io.Copy(target, ch)
		if t, ok := target.(interface{ CloseWrite() error }); ok {
			_ = t.CloseWrite()
		}
	})
	copies.Wait()
	_ = ch.Close()
	_ = target.Close()
	wg.Wait()
}

// DialLoopback connects to a port of a stand-in that has only one loopback address on a
// machine shared with others: what a client calls the host's own 127.0.0.1 is tried at
// that address first.
func DialLoopback(ctx context.Context, own, host string, port int) (net.Conn, error) {
	var d net.Dialer
	p := strconv.Itoa(port)
	if host == "localhost" || host == "127.0.0.1" {
		if c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort(own, p)); err == nil {
			return c, nil
		}
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, errors.New("only loopback addresses can be reached from a stand-in")
	}
	return d.DialContext(ctx, "tcp4", net.JoinHostPort(host, p))
}
