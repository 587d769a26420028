// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

func startSession(t testing.TB, ctx context.Context, p *ssh.Pool, target ssh.Target, line string, pty *ssh.PTY) *ssh.Session {
	t.Helper()
	s, err := p.StartSession(ctx, target, line, pty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// say writes a line to a session.
func say(t testing.TB, s *ssh.Session, line string) {
	t.Helper()
	if _, err := io.WriteString(s.Stdin(), line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// expect reads until a line has the text.
func expect(t testing.TB, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("waiting for %q: read %q, %v", text, line, err)
		}
	}
}

func TestSessionExit(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	tests := []struct {
		command string
		stdout  string
		stderr  string
		code    int // -1: an end without a status
		signal  string
	}{
		{command: "echo hello", stdout: "hello\n"},
		{command: "exit 7", code: 7},
		{command: "exit 4294967295", code: 4294967295},
		{command: "fail broken", stderr: "broken\n", code: 3},
		{command: "stderr 9", stderr: "eeeeeEND\n", stdout: "done\n", code: 4},
		{command: "signal KILL", code: 137, signal: "KILL"},
		{command: "vanish", code: -1},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			session := startSession(t, testContext(t), p, s.target(), tt.command, nil)
			stdout, stderr := drain(t, session)
			if string(stdout) != tt.stdout || string(stderr) != tt.stderr {
				t.Errorf("got %q and %q, want %q and %q", stdout, stderr, tt.stdout, tt.stderr)
			}
			for range 2 {
				wantEnd(t, session.Wait(), tt.code, tt.signal)
			}
		})
	}
	eventually(t, "the sessions are given back", func() bool { return p.Stats().Sessions == 0 })
}

// drain reads both outputs to their ends, as a caller has to.
func drain(t testing.TB, s *ssh.Session) (stdout, stderr []byte) {
	t.Helper()
	var wg sync.WaitGroup
	var outErr, errErr error
	wg.Go(func() { stdout, outErr = io.ReadAll(s.Stdout()) })
	wg.Go(func() { stderr, errErr = io.ReadAll(s.Stderr()) })
	wg.Wait()
	if err := errors.Join(outErr, errErr); err != nil {
		t.Errorf("reading: %v", err)
	}
	return stdout, stderr
}

// wantEnd checks what Wait says: a code of -1 means that it must not know one.
func wantEnd(t testing.TB, err error, code int, signal string) {
	t.Helper()
	var exit *ssh.ExitError
	switch {
	case code == 0:
		if err != nil {
			t.Errorf("got %v, want success", err)
		}
	case code < 0:
		wantError(t, err, ssh.LayerSession, ssh.ReasonConnectionLost)
	case !errors.As(err, &exit):
		t.Errorf("got %v (%T), want an *ExitError", err, err)
	case exit.Code != code || exit.Signal != signal:
		t.Errorf("got %+v, want code %d, signal %q", exit, code, signal)
	}
}

func TestSessionShell(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	for _, tt := range []struct {
		name string
		pty  *ssh.PTY
	}{{"with a terminal", &ssh.PTY{Term: "vt100", Columns: 132, Rows: 43}}, {"without", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			session := startSession(t, testContext(t), p, s.target(), "", tt.pty)
			r := bufio.NewReader(session.Stdout())
			say(t, session, "hello")
			expect(t, r, "you said hello")
			say(t, session, "exit 5")
			wantEnd(t, session.Wait(), 5, "")
			if rest, err := io.ReadAll(session.Stderr()); err != nil || len(rest) > 0 {
				t.Errorf("standard error: %q, %v", rest, err)
			}
		})
	}
}

func TestSessionPTY(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	tests := []struct {
		name string
		pty  ssh.PTY
		want ptyRequest
	}{
		{"given", ssh.PTY{Term: "vt100", Columns: 132, Rows: 43}, ptyRequest{Term: "vt100", Columns: 132, Rows: 43}},
		{"defaults", ssh.PTY{}, ptyRequest{Term: "xterm-256color", Columns: 80, Rows: 24}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			session := startSession(t, testContext(t), p, s.target(), "cat", &tt.pty)
			// With a terminal there is no standard error, also while the command runs.
			if n, err := session.Stderr().Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("standard error: %d, %v", n, err)
			}
			s.mu.Lock()
			got := s.ptys[i]
			s.mu.Unlock()
			if len(got.Modes)%5 != 1 || got.Modes[len(got.Modes)-1] != 0 {
				t.Errorf("the modes are %q", got.Modes)
			}
			got.Modes = ""
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSessionResize(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	session := startSession(t, testContext(t), p, s.target(), "cat", &ssh.PTY{})
	const last = 500
	for i := range last {
		if err := session.Resize(uint16(i+1), 50); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the last size arrives", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sizes) > 0 && s.sizes[len(s.sizes)-1] == fmt.Sprintf("%dx50", last)
	})
	must(t, session.Resize(0, 0))
	eventually(t, "no size means the default one", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.sizes[len(s.sizes)-1] == "80x24"
	})
	must(t, session.Stdin().Close())
	must(t, session.Wait())
	must(t, session.Resize(1, 1)) // nobody needs it any more

	plain := startSession(t, testContext(t), p, s.target(), "cat", nil)
	wantError(t, plain.Resize(80, 24), ssh.LayerSession, ssh.ReasonSessionRefused)
}

// TestSessionResizeOfAHangingHost proves that nobody waits in Resize for a host that does not read.
func TestSessionResizeOfAHangingHost(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	session := startSession(t, testContext(t), p, sshdTarget(s), "sleep 1000", &ssh.PTY{})
	must(t, s.Signal(syscall.SIGSTOP))
	defer s.Signal(syscall.SIGCONT)
	for i := range 1 << 17 { // 6 MiB, if each were sent
		must(t, session.Resize(uint16(i), 50))
	}
}

func TestSessionRefused(t *testing.T) {
	tests := []struct {
		name   string
		script script
		line   string
		pty    *ssh.PTY
		layer  ssh.Layer
		reason ssh.Reason
		says   string
	}{
		{"no terminals", script{refusePTY: true}, "cat", &ssh.PTY{}, ssh.LayerShell, ssh.ReasonSessionRefused, "no terminal"},
		{"no commands", script{refuseExec: true}, "cat", nil, ssh.LayerShell, ssh.ReasonSessionRefused, "login shell"},
		{"no shells", script{refuseExec: true}, "", nil, ssh.LayerShell, ssh.ReasonSessionRefused, "login shell"},
		{"no answer", script{mute: true}, "cat", &ssh.PTY{}, ssh.LayerSession, ssh.ReasonTimedOut, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.script)
			p := newPool(t, ssh.Options{HandshakeTimeout: time.Second})
			_, err := p.StartSession(testContext(t), s.target(), tt.line, tt.pty)
			wantError(t, err, tt.layer, tt.reason)
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
			eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 0 && s.count(&s.sessions) == 0 })
		})
	}
}

func TestSessionEnds(t *testing.T) {
	tests := []struct {
		name    string
		command string
		pty     *ssh.PTY
		end     func(*ssh.Session, context.CancelFunc, *server)
		reason  ssh.Reason
	}{
		{"closed", "sleep", nil, func(s *ssh.Session, _ context.CancelFunc, _ *server) { s.Close(); s.Close() }, ssh.ReasonSessionClosed},
		{"closed with a terminal", "sleep", &ssh.PTY{}, func(s *ssh.Session, _ context.CancelFunc, _ *server) { s.Close() }, ssh.ReasonSessionClosed},
		{"canceled", "sleep", nil, func(_ *ssh.Session, cancel context.CancelFunc, _ *server) { cancel() }, ssh.ReasonCanceled},
		{"cut", "sleep", nil, func(_ *ssh.Session, _ context.CancelFunc, s *server) { s.cut() }, ssh.ReasonConnectionLost},
		// More than the window, and nobody reads.
		{"closed while output waits", "yes 100000000", nil, func(s *ssh.Session, _ context.CancelFunc, _ *server) { s.Close() }, ssh.ReasonSessionClosed},
		{"closed while standard error waits", "stderr 100000000", nil, func(s *ssh.Session, _ context.CancelFunc, _ *server) { s.Close() }, ssh.ReasonSessionClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, script{})
			p := newPool(t, ssh.Options{})
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			session := startSession(t, ctx, p, s.target(), tt.command, tt.pty)
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = session.Stdin().Write(make([]byte, 64<<20)) })
			if tt.command == "sleep" {
				wg.Go(func() { _, _ = io.Copy(io.Discard, session.Stdout()) })
				wg.Go(func() { _, _ = io.Copy(io.Discard, session.Stderr()) })
			}
			tt.end(session, cancel, s)
			for range 2 {
				wantError(t, session.Wait(), ssh.LayerSession, tt.reason)
			}
			wg.Wait()
			if tt.reason != ssh.ReasonConnectionLost {
				if _, err := session.Stdin().Write([]byte("x")); err == nil {
					t.Error("it can still be written to")
				}
			}
			eventually(t, "the command has ended", func() bool { return s.count(&s.sessions) == 0 && p.Stats().Sessions == 0 })
		})
	}
}

// TestSessionBothWays sends 64 MiB in, and the same out on both outputs, all at the same time.
func TestSessionBothWays(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	stand := newServer(t, script{})
	for _, tt := range []struct {
		name   string
		target ssh.Target
		line   string
	}{{"stand-in", stand.target(), "both"}, {"sshd", sshdTarget(sshd), "tee /dev/stderr"}} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, ssh.Options{})
			session := startSession(t, testContext(t), p, tt.target, tt.line, nil)
			const size = 64 << 20
			sent, out, errs := sha256.New(), sha256.New(), sha256.New()
			var wg sync.WaitGroup
			wg.Go(func() {
				source := io.LimitReader(rand.NewChaCha8([32]byte{}), size)
				if _, err := io.Copy(session.Stdin(), io.TeeReader(source, sent)); err != nil {
					t.Error(err)
				}
				if err := session.Stdin().Close(); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if n, err := io.Copy(out, session.Stdout()); err != nil || n != size {
					t.Errorf("standard output: %d bytes, %v", n, err)
				}
			})
			wg.Go(func() {
				if n, err := io.Copy(errs, session.Stderr()); err != nil || n != size {
					t.Errorf("standard error: %d bytes, %v", n, err)
				}
			})
			wg.Wait()
			must(t, session.Wait())
			if !bytes.Equal(sent.Sum(nil), out.Sum(nil)) || !bytes.Equal(sent.Sum(nil), errs.Sum(nil)) {
				t.Error("the data was changed")
			}
		})
	}
}

// TestSessionUnreadStderr proves that what waits on standard error is not lost, and holds its own command back only.
func TestSessionUnreadStderr(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	session := startSession(t, testContext(t), p, s.target(), "stderr 8000000", nil)
	if err := p.Run(testContext(t), s.target(), "echo hello", nil, nil); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := drain(t, session)
	if string(stdout) != "done\n" || len(stderr) != 8000000 || !bytes.HasSuffix(stderr, []byte("eEND\n")) {
		t.Errorf("got %q and %d bytes of standard error", stdout, len(stderr))
	}
	wantEnd(t, session.Wait(), 4, "")
}

func TestSSHDSessionTerminal(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	session := startSession(t, testContext(t), p, sshdTarget(s), "echo term=$TERM; stty size; while read line; do echo got $line; stty size; done",
		&ssh.PTY{Term: "vt220", Columns: 101, Rows: 37})
	r := bufio.NewReader(session.Stdout())
	expect(t, r, "term=vt220")
	expect(t, r, "37 101")
	must(t, session.Resize(55, 22))
	eventually(t, "the terminal has the new size", func() bool {
		say(t, session, "size?")
		expect(t, r, "got size?")
		line, err := r.ReadString('\n')
		return err == nil && strings.TrimSpace(line) == "22 55"
	})
	say(t, session, "Grüße")
	expect(t, r, "got Grüße")
	if _, err := io.WriteString(session.Stdin(), "\x04"); err != nil { // what a terminal takes for the end of input
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	must(t, session.Wait())
}

func TestSSHDSessionInterrupt(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	session := startSession(t, testContext(t), p, sshdTarget(s), "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 1; done", &ssh.PTY{})
	r := bufio.NewReader(session.Stdout())
	expect(t, r, "ready")
	if _, err := io.WriteString(session.Stdin(), "\x03"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "interrupted")
	wantEnd(t, session.Wait(), 9, "")
}

func TestSSHDSessionShell(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	for _, pty := range []*ssh.PTY{nil, {}} {
		session := startSession(t, testContext(t), p, sshdTarget(s), "", pty)
		r := bufio.NewReader(session.Stdout())
		say(t, session, "echo $((6 * 7))")
		expect(t, r, "42")
		say(t, session, "exit 3")
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
		wantEnd(t, session.Wait(), 3, "")
	}
}

func TestSSHDSessionExit(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	for _, tt := range []struct {
		command        string
		stdout, stderr string
		code           int
		signal         string
	}{
		{"echo out; echo err >&2; exit 42", "out\n", "err\n", 42, ""},
		{"kill -KILL $$", "", "", 137, "KILL"},
		{"printf '\\000\\377\\r\\n'", "\x00\xff\r\n", "", 0, ""},
	} {
		session := startSession(t, testContext(t), p, sshdTarget(s), tt.command, nil)
		stdout, stderr := drain(t, session)
		if string(stdout) != tt.stdout || string(stderr) != tt.stderr {
			t.Errorf("%s: got %q and %q", tt.command, stdout, stderr)
		}
		wantEnd(t, session.Wait(), tt.code, tt.signal)
	}
}

// TestSSHDSessionsAreKilled proves that a command does not outlive its session: a terminal hangs up, which ends
// also what neither reads nor writes. Without one sshd closes the pipes, and to root, as here, it gives no
// signals; a command that uses neither pipe would stay.
func TestSSHDSessionsAreKilled(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, ssh.Options{})
	for _, tt := range []struct {
		name string
		line string // the shell's when the session runs one
		run  string
		pty  *ssh.PTY
	}{
		{"terminal", "", "exec sleep 1000", &ssh.PTY{}},
		{"shell on a terminal", "sleep 1000", "", &ssh.PTY{}},
		{"ignores SIGTERM on a terminal", "", "trap '' TERM; exec sleep 1000", &ssh.PTY{}},
		{"reads", "", "exec cat", nil},
		{"writes", "", "exec yes", nil},
		{"shell without", "exec cat", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			run := tt.run
			if run != "" {
				run = "echo $$ >" + file + "; " + run
			}
			session := startSession(t, testContext(t), p, sshdTarget(s), run, tt.pty)
			if tt.line != "" {
				say(t, session, "echo $$ >"+file+"; "+tt.line)
			}
			var pid int
			eventually(t, "the command runs", func() bool {
				b, _ := os.ReadFile(file)
				n, _ := fmt.Sscan(string(b), &pid)
				return n == 1
			})
			t.Cleanup(func() {
				if alivePID(pid) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			must(t, session.Close())
			eventually(t, "the command has ended", func() bool { return !alivePID(pid) })
			eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 0 })
		})
	}
}

func alivePID(pid int) bool { return syscall.Kill(pid, 0) == nil }
