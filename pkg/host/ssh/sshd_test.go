// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// The tests of this file show that the pool and a real sshd understand each other where
// the stand-in of the other tests only does what we believe sshd to do.

func sshdTarget(s *opensshd.Server) hostssh.Target {
	return hostssh.Target{
		Address:    s.Host,
		Port:       s.Port,
		User:       s.User,
		Credential: hostssh.Credential{Signers: []ssh.Signer{s.Signer}},
		HostKeys:   []ssh.PublicKey{s.HostKey()},
	}
}

func TestSSHDCommands(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, hostssh.Options{})
	tests := []struct {
		command string
		stdin   string
		stdout  string
		exit    *hostssh.ExitError
	}{
		{command: "echo hello", stdout: "hello\n"},
		{command: "cat", stdin: "in", stdout: "in"},
		{command: "echo oops >&2; exit 42", exit: &hostssh.ExitError{Code: 42, Stderr: "oops\n"}},
		{command: "exec /nonexistent 2>/dev/null", exit: &hostssh.ExitError{Code: 127}},
		{command: "kill -TERM $$", exit: &hostssh.ExitError{Code: 143, Signal: "TERM"}},
		{command: "head -c 3000000 /dev/zero >&2; exit 1", exit: &hostssh.ExitError{Code: 1, Stderr: strings.Repeat("\x00", 8<<10)}},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			var out bytes.Buffer
			err := p.Run(testContext(t), sshdTarget(s), tt.command, []byte(tt.stdin), &out)
			var exit *hostssh.ExitError
			switch {
			case tt.exit == nil && err != nil:
				t.Fatal(err)
			case tt.exit != nil && (!errors.As(err, &exit) || *exit != *tt.exit):
				t.Fatalf("got %v, want %v", err, tt.exit)
			}
			if out.String() != tt.stdout {
				t.Errorf("got %q, want %q", out.String(), tt.stdout)
			}
		})
	}
	if n := len(s.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestSSHDMaxSessions(t *testing.T) {
	tests := []struct {
		name        string
		maxSessions int
		sessions    int
		connections int
		learned     bool
	}{
		{"default", 10, 16, 2, false},
		{"three", 3, 9, 3, true},
		{"one", 1, 4, 4, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions " + strconv.Itoa(tt.maxSessions)}})
			p := newPool(t, hostssh.Options{})
			for range tt.sessions {
				alive(t, start(t, testContext(t), p, sshdTarget(s)))
			}
			st := p.Stats()
			if st.Connections != tt.connections || (st.LimitsLearned > 0) != tt.learned {
				t.Errorf("got %d connections, learned %d; want %d, learned: %v", st.Connections, st.LimitsLearned, tt.connections, tt.learned)
			}
			if n := len(s.Connections()); n != tt.connections {
				t.Errorf("sshd has %d connections, want %d", n, tt.connections)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 0"}})
		p := newPool(t, hostssh.Options{})
		for range 2 {
			wantError(t, p.Ping(testContext(t), sshdTarget(s)), hostssh.LayerSession, hostssh.ReasonSessionRefused)
		}
	})
}

func TestSSHDEndsCanceledCommands(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 2"}})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 2, MaxConnsPerHost: 1})
	file := filepath.Join(t.TempDir(), "ended")
	const commands = 6
	for i := range commands {
		eventually(t, "sshd gave a session back", func() bool { return p.Stats().Sessions == 0 })
		ctx, cancel := context.WithCancel(t.Context())
		proc, err := p.Start(ctx, sshdTarget(s), "trap '' PIPE; echo ready; cat; echo ended >>"+file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(proc.Stdout(), make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		cancel()
		wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonCanceled)
		eventually(t, "the command ends", func() bool {
			b, _ := os.ReadFile(file)
			return string(b) == strings.Repeat("ended\n", i+1)
		})
	}
	if d := p.Stats().Dials; d != 1 {
		t.Errorf("%d connections were made, want 1", d)
	}
}

func TestSSHDCommandsThatDoNotEnd(t *testing.T) {
	// sshd counts a session until its command has ended. The pool must know, and still not run out of sessions.
	s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 2"}})
	p := newPool(t, hostssh.Options{MaxSessionsPerConn: 2, MaxConnsPerHost: 1})
	ctx := testContext(t)
	for range 5 {
		proc, err := p.Start(ctx, sshdTarget(s), "trap '' TERM HUP PIPE; echo $$; exec sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 16)
		n, err := proc.Stdout().Read(line)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		proc.Close()
	}
	if st := p.Stats(); st.LimitsLearned > 0 {
		t.Errorf("the server refused sessions that the pool had not counted")
	}
	eventually(t, "of the connections only the last one is left", func() bool { return len(s.Connections()) == 1 })
}

func TestSSHDMaxStartups(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxStartups 1:100:1"}})
	p := newPool(t, hostssh.Options{})
	// Somebody else's connection that does not authenticate.
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len("SSH-2.0-"))); err != nil {
		t.Fatal(err)
	}
	err = p.Ping(testContext(t), sshdTarget(s))
	wantError(t, err, hostssh.LayerHandshake, hostssh.ReasonConnectionReset)
	if !strings.Contains(err.Error(), "MaxStartups") {
		t.Errorf("%q does not say why", err)
	}
	c.Close()
	eventually(t, "sshd takes connections again", func() bool { return p.Ping(testContext(t), sshdTarget(s)) == nil })
}

func TestSSHDHostKeyTypes(t *testing.T) {
	types := []string{opensshd.RSA, opensshd.ECDSA, opensshd.Ed25519}
	s := opensshd.Start(t, opensshd.Options{HostKeyTypes: types})
	p := newPool(t, hostssh.Options{})
	for i, k := range s.HostKeys {
		t.Run(types[i], func(t *testing.T) {
			target := sshdTarget(s)
			target.HostKeys = []ssh.PublicKey{k}
			if err := p.Ping(testContext(t), target); err != nil {
				t.Error(err)
			}
		})
	}
	target := sshdTarget(s)
	target.HostKeys = nil
	err := p.Ping(testContext(t), target)
	wantError(t, err, hostssh.LayerHostKey, hostssh.ReasonHostKeyUnknown)
	if strings.Contains(s.Log(), "Accepted") && strings.Count(s.Log(), "Accepted publickey") != len(types) {
		t.Error("it authenticated without a pinned key")
	}

	other := opensshd.Start(t, opensshd.Options{HostKeyTypes: []string{opensshd.RSA}})
	target = sshdTarget(other)
	target.HostKeys = []ssh.PublicKey{s.HostKeys[2]}
	err = p.Ping(testContext(t), target)
	wantError(t, err, hostssh.LayerHostKey, hostssh.ReasonHostKeyChanged)
	for _, k := range []ssh.PublicKey{other.HostKey(), s.HostKeys[2]} {
		if !strings.Contains(err.Error(), hostssh.Fingerprint(k)) {
			t.Errorf("%q does not name %s", err, hostssh.Fingerprint(k))
		}
	}
}

func TestSSHDCredentials(t *testing.T) {
	rsaKey, stranger := newSigner(t, ssh.KeyAlgoRSA), newSigner(t, ssh.KeyAlgoED25519)
	s := opensshd.Start(t, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{rsaKey.PublicKey()}})
	p := newPool(t, hostssh.Options{})
	tests := []struct {
		name    string
		signers []ssh.Signer
		refused bool
	}{
		{"RSA", []ssh.Signer{rsaKey}, false},
		{"new after old", []ssh.Signer{stranger, s.Signer}, false},
		{"stranger", []ssh.Signer{stranger}, true},
		// sshd hangs up in the middle of them.
		{"seven strangers", []ssh.Signer{stranger, stranger, stranger, stranger, stranger, stranger, stranger}, true},
		{"nothing", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := sshdTarget(s)
			target.Credential = hostssh.Credential{ID: tt.name, Signers: tt.signers}
			err := p.Ping(testContext(t), target)
			if tt.refused {
				wantError(t, err, hostssh.LayerAuth, hostssh.ReasonCredentialsRefused)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSSHDCutConnection(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, hostssh.Options{})
	proc := start(t, testContext(t), p, sshdTarget(s))
	alive(t, proc)
	must(t, s.Signal(syscall.SIGKILL))
	wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonConnectionLost)
	if err := p.Ping(testContext(t), sshdTarget(s)); err != nil {
		t.Error(err)
	}
}

func TestSSHDThatHangs(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, hostssh.Options{KeepAliveInterval: 250 * time.Millisecond})
	proc := start(t, testContext(t), p, sshdTarget(s))
	alive(t, proc)
	must(t, s.Signal(syscall.SIGSTOP))
	wantError(t, proc.Wait(), hostssh.LayerSession, hostssh.ReasonConnectionLost)
	must(t, s.Signal(syscall.SIGCONT))
}

func TestSSHDClientAlive(t *testing.T) {
	// sshd ends connections that do not answer it for two seconds.
	s := opensshd.Start(t, opensshd.Options{Config: []string{"ClientAliveInterval 1", "ClientAliveCountMax 1"}})
	p := newPool(t, hostssh.Options{KeepAliveInterval: time.Hour})
	proc := start(t, testContext(t), p, sshdTarget(s))
	var out bytes.Buffer
	if err := p.Run(testContext(t), sshdTarget(s), "sleep 4; echo awake", nil, &out); err != nil || out.String() != "awake\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	alive(t, proc)
}

func TestSSHDRekey(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"RekeyLimit 1M"}})
	p := newPool(t, hostssh.Options{})
	sent, received := make([]byte, 64<<20), sha256.New()
	_, _ = rand.NewChaCha8([32]byte{}).Read(sent) // it never fails
	err := p.Run(testContext(t), sshdTarget(s), "cat", sent, received)
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(sent); !bytes.Equal(want[:], received.Sum(nil)) {
		t.Error("the stream was changed")
	}
	if n := len(s.Connections()); n != 1 {
		t.Errorf("%d connections, want the same one all the time", n)
	}
}

// TestSSHDOutlivesRekey: the limit on handshakes is none on the connection when the keys are
// exchanged again.
func TestSSHDOutlivesRekey(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"RekeyLimit 1M"}})
	p := newPool(t, hostssh.Options{HandshakeTimeout: 3 * time.Second})
	var out bytes.Buffer
	if err := p.Run(testContext(t), sshdTarget(s), "head -c 4194304 /dev/zero; sleep 5; echo awake", nil, &out); err != nil || !strings.HasSuffix(out.String(), "awake\n") {
		t.Errorf("got %d bytes, %v", out.Len(), err)
	}
}

func TestSSHDSFTP(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, hostssh.Options{})
	client, err := p.SFTP(testContext(t), sshdTarget(s))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	f, err := client.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 10<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	if n, err := f.ReadFrom(bytes.NewReader(data)); err != nil || n != int64(len(data)) {
		t.Fatalf("wrote %d, %v", n, err)
	}
	must(t, f.Close())
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file has other content (%v)", err)
	}
	if n := p.Stats().Sessions; n != 1 {
		t.Errorf("%d sessions in use, want 1", n)
	}
	for range 2 {
		must(t, client.Close())
	}
	eventually(t, "the session is given back", func() bool { return p.Stats().Sessions == 0 })
	if _, err := client.Stat(path); err == nil {
		t.Error("a closed client works")
	}
}

func TestSSHDSFTPContext(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{})
	p := newPool(t, hostssh.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	client, err := p.SFTP(ctx, sshdTarget(s))
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Signal(syscall.SIGSTOP))
	defer s.Signal(syscall.SIGCONT)
	stat := make(chan error, 1)
	go func() {
		_, err := client.Stat("/")
		stat <- err
	}()
	cancel()
	if err := <-stat; err == nil {
		t.Error("a stopped host answered")
	}
	must(t, client.Close())
}

func TestSSHDWithoutSFTP(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{NoSFTP: true})
	p := newPool(t, hostssh.Options{})
	_, err := p.SFTP(testContext(t), sshdTarget(s))
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonSessionRefused)
}

func TestSSHDForward(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 1"}})
	p := newPool(t, hostssh.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "hello %d", i)
			c.Close()
		}
	}()
	session := start(t, testContext(t), p, sshdTarget(s)) // forwards are not limited by MaxSessions
	for i := range 20 {
		c, err := p.Dial(testContext(t), sshdTarget(s), uint16(l.Addr().(*net.TCPAddr).Port))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if want := fmt.Sprintf("hello %d", i); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		must(t, c.Close())
	}
	alive(t, session)
	if n := len(s.Connections()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	_, err = p.Dial(testContext(t), sshdTarget(s), uint16(closedPort()))
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonConnectionRefused)

	closed := opensshd.Start(t, opensshd.Options{Config: []string{"AllowTcpForwarding no"}})
	_, err = p.Dial(testContext(t), sshdTarget(closed), 22)
	wantError(t, err, hostssh.LayerSession, hostssh.ReasonSessionRefused)
}
