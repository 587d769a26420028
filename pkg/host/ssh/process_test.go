// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestExit(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	tests := []struct {
		command string
		code    int // 0 means success, -1 an end without a status
		signal  string
		stderr  string
		says    string
	}{
		{command: "exit 0"},
		{command: "exit 1", code: 1, says: "exit code 1"},
		{command: "exit 255", code: 255},
		{command: "exit 4294967295", code: 4294967295}, // Windows statuses are unsigned
		{command: "nonsense", code: 127, stderr: "nonsense: not found\n", says: "exit code 127: nonsense: not found"},
		{command: "fail 'x' is not recognized as an internal or external command", code: 3,
			stderr: "'x' is not recognized as an internal or external command\n"},
		{command: "signal KILL", code: 137, signal: "KILL", says: "signal KILL"},
		{command: "vanish", code: -1},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			err := p.Run(testContext(t), s.target(), tt.command, nil, nil)
			switch tt.code {
			case 0:
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
				return
			case -1:
				wantError(t, err, ssh.LayerSession, ssh.ReasonConnectionLost)
				return
			}
			var exit *ssh.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("got %v (%T), want an *ExitError", err, err)
			}
			if exit.Code != tt.code || exit.Signal != tt.signal || exit.Stderr != tt.stderr {
				t.Errorf("got %+v", exit)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

func TestChattyStderrBlocksNothing(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	// More than the window of a channel, which standard output shares.
	proc, err := p.Start(testContext(t), s.target(), "stderr 8000000")
	if err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := proc.Wait(); !errors.As(err, &exit) || exit.Code != 4 {
		t.Fatalf("got %v, want exit code 4", err)
	}
	if n := len(exit.Stderr); n != 8<<10 {
		t.Errorf("%d bytes of standard error are kept, want 8 KiB", n)
	}
	if !strings.HasSuffix(exit.Stderr, "eEND\n") {
		t.Errorf("the end of standard error is not what was kept: %q", exit.Stderr[len(exit.Stderr)-10:])
	}
	// What was not read before the end can be read after it.
	if out, err := io.ReadAll(proc.Stdout()); err != nil || string(out) != "done\n" {
		t.Errorf("standard output: %q, %v", out, err)
	}
}

func TestUnreadOutputHoldsOnlyItsCommandBack(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	const size = 8 << 20
	big, err := p.Start(testContext(t), s.target(), "yes 8388608")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := p.Run(testContext(t), s.target(), "echo hello", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count(&s.accepted); n != 1 {
		t.Fatalf("%d connections, so this proves nothing", n)
	}
	n, err := io.Copy(io.Discard, big.Stdout())
	if err != nil || n != size {
		t.Errorf("read %d bytes, %v; want %d", n, err, size)
	}
	if err := big.Wait(); err != nil {
		t.Error(err)
	}
}

func TestProcessClose(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	proc, err := p.Start(testContext(t), s.target(), "sleep")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := proc.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for range 2 {
		wantError(t, proc.Wait(), ssh.LayerSession, ssh.ReasonSessionClosed)
	}
	eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 0 })

	done, err := p.Start(testContext(t), s.target(), "exit 7")
	if err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := done.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	done.Close()
	if err := done.Wait(); !errors.As(err, &exit) {
		t.Errorf("Close after the end changed the result to %v", err)
	}
}

func TestContextEndsABlockedWrite(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	proc, err := p.Start(ctx, s.target(), "sleep") // reads nothing
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := proc.Stdin().Write(make([]byte, 64<<20)) // more than all buffers
		wrote <- err
	}()
	eventually(t, "the write is under way", func() bool { return p.Stats().Sessions == 1 })
	cancel()
	if err := <-wrote; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestRunStreams(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	errBroken := errors.New("broken")
	tests := []struct {
		name    string
		command string
		stdin   string
		stdout  io.Writer
		want    error
	}{
		{name: "through", command: "cat", stdin: "through", stdout: new(bytes.Buffer)},
		{name: "no input", command: "cat", stdout: new(bytes.Buffer)},
		{name: "no output", command: "yes 100000"},
		{name: "input that the command does not read", command: "exit 0", stdin: strings.Repeat("a", 8<<20)},
		{name: "output that fails", command: "yes 100000000", stdout: brokenWriter{errBroken}, want: errBroken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := p.Run(testContext(t), s.target(), tt.command, []byte(tt.stdin), tt.stdout)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 0 })
		})
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestDialRefused(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	_, err := p.Dial(testContext(t), s.target(), uint16(closedPort()))
	wantError(t, err, ssh.LayerSession, ssh.ReasonConnectionRefused)
	if !strings.Contains(err.Error(), "connect failed") {
		t.Errorf("%v does not say what the host said", err)
	}
	eventually(t, "nothing is in use", func() bool { return p.Stats().Forwards == 0 })
}

func TestForwardsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{MaxForwardsPerConn: 2, MaxConnsPerHost: 1})
	var conns []*ssh.Forward
	for range 2 {
		c, err := p.Dial(testContext(t), s.target(), port)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.Dial(ctx, s.target(), port)
	wantError(t, err, ssh.LayerSession, ssh.ReasonSessionLimitReached)
	if err := p.Ping(testContext(t), s.target()); err != nil {
		t.Errorf("forwards count as sessions: %v", err)
	}
	conns[0].Close()
	c, err := p.Dial(testContext(t), s.target(), port)
	if err != nil {
		t.Fatalf("the closed forward was not given back: %v", err)
	}
	c.Close()
	conns[1].Close()
	eventually(t, "all are given back", func() bool { return p.Stats().Forwards == 0 })
	if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of a closed forward: %v, want net.ErrClosed", err)
	}
}

func TestForward(t *testing.T) {
	s := newServer(t, script{})
	p := newPool(t, ssh.Options{})
	connect := func(t *testing.T) (near *ssh.Forward, far *net.TCPConn) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		near, err = p.Dial(t.Context(), s.target(), uint16(l.Addr().(*net.TCPAddr).Port))
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); accepted.Close() })
		return near, accepted.(*net.TCPConn)
	}
	t.Run("both directions at the same time, and their ends", func(t *testing.T) {
		near, far := connect(t)
		want := make([]byte, 8<<20)
		for i := range want {
			want[i] = byte(i >> 8)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := near.Write(want); err != nil {
				t.Error(err)
			}
			if err := near.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := far.Write(want); err != nil {
				t.Error(err)
			}
			if err := far.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		for name, end := range map[string]io.Reader{"near": near, "far": far} {
			wg.Go(func() {
				if got, err := io.ReadAll(end); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v; want the %d that were sent", name, len(got), err, len(want))
				}
			})
		}
		wg.Wait()
	})
	t.Run("ping-pong", func(t *testing.T) {
		near, far := connect(t)
		go func() { _, _ = io.Copy(far, far) }()
		for i := range 100 {
			b := []byte{byte(i)}
			if _, err := near.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(near, b); err != nil || b[0] != byte(i) {
				t.Fatalf("got %v, %v", b, err)
			}
		}
	})
	for name, blocked := range map[string]func(*ssh.Forward) error{
		"a read ends with Close":  func(f *ssh.Forward) error { _, err := f.Read(make([]byte, 1)); return err },
		"a write ends with Close": func(f *ssh.Forward) error { _, err := f.Write(make([]byte, 64<<20)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			near, _ := connect(t)
			ended := make(chan error, 2)
			for range 2 { // the second waits for the first
				go func() { ended <- blocked(near) }()
			}
			near.Close()
			for range 2 {
				err := <-ended
				wantError(t, err, ssh.LayerSession, ssh.ReasonSessionClosed)
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("got %v, want net.ErrClosed", err)
				}
			}
		})
	}
}
