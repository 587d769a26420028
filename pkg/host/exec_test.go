// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/shell"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// shells are hosts with every login shell that a tier has.
var shells = []struct {
	name    string
	options winhost.Options
}{
	{"cmd.exe, made up", winhost.Options{}},
	{"PowerShell, made up", winhost.Options{InProcess: winhost.InProcessOptions{PowerShell: true}}},
	{"sh", winhost.Options{Tier: winhost.TierOpenSSH}},
	{"cmd.exe of Wine", winhost.Options{Tier: winhost.TierWine}},
}

func (s *site) exec(t *testing.T, ctx context.Context, tty *ssh.PTY, command ...string) *ssh.Session {
	t.Helper()
	session, err := s.connector.Exec(ctx, s.Instance, command, tty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// finish reads all of a session and returns how it ended.
func finish(t *testing.T, s *ssh.Session) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&out, s.Stdout()) }) // errors are those of Wait
	wg.Go(func() { _, _ = io.Copy(&errs, s.Stderr()) })
	wg.Wait()
	err := s.Wait()
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.Code
	case err != nil:
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

// arguments must reach a program as they are.
var arguments = []string{
	"a", "", "b c", `C:\Program Files\`, `\\server\share\`, `"`, `say "hi" now`, `\"`, `x\" & hostname & " y`,
	"%OS%", "%", "100%%", "%cd:~,%", "^%OS^%", "&", "|", ">nul", "<nul", "^", "(a)", "!OS!", "@;,=",
	"$env:OS", "$(hostname)", "`", "it's", "’", "{0}", "-Path", "-a.b", "--%", "/c", "a  b", "grüße",
}

// TestExecArguments runs the quoted lines through shells. sh is the real one. Wine's cmd.exe is not that of Windows: it agrees
// with it on how the quotes around the line, carets and the empty part of a variable are
// read, which are what our lines use, and shows that a Windows program splits what is left as we mean it. It
// does not show that nothing else is special to the real one; the models of package shell say what is
// known of that. The made-up shells only show that the shell that was found is the one that is quoted for.
func TestExecArguments(t *testing.T) {
	for _, tt := range shells {
		t.Run(tt.name, func(t *testing.T) {
			s := newSiteOn(t, tt.options)
			program := s.argsProgram(t)
			for _, tty := range []*ssh.PTY{nil, {}} {
				if tty != nil && s.Host.Tier() == winhost.TierWine {
					continue // without PowerShell no quoted argument reaches cmd.exe on a terminal
				}
				var got []string
				stdout, stderr, code := finish(t, s.exec(t, t.Context(), tty, append(program, arguments...)...))
				for arg := range strings.SplitSeq(strings.TrimRight(stdout, "\r\n\x00"), "\x00") {
					got = append(got, strings.TrimPrefix(arg, "\r\n"))
				}
				if len(got) == 1 {
					got = strings.Split(got[0], "\r\n")
				}
				if d := cmp.Diff(arguments, got); d != "" || code != 0 || stderr != "" {
					t.Errorf("terminal %v, code %d, %q: %s", tty != nil, code, stderr, d)
				}
			}
		})
	}
}

// argsProgram is a program of the host that prints its arguments, on Wine under a name that needs quotes.
func (s *site) argsProgram(t *testing.T) []string {
	t.Helper()
	switch s.Host.Tier() {
	case winhost.TierInProcess:
		return []string{"args"}
	case winhost.TierOpenSSH:
		return []string{"printf", `%s\0`}
	}
	program, err := programs.Build(t.Context(), "test/winhost/hosttest/testdata/args", "windows", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	const path = `C:\Program Files\100% (x86)\args.exe`
	local, err := s.Host.LocalPath(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(local, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func TestExecStreams(t *testing.T) {
	const size = 4 << 20
	for _, tt := range shells[:3] {
		t.Run(tt.name, func(t *testing.T) {
			s := newSiteOn(t, tt.options)
			fail, digest := []string{"fail", "42", "it  broke"}, []string{"digest"}
			if s.Host.Tier() == winhost.TierOpenSSH {
				fail, digest = []string{"sh", "-c", "echo 'it  broke' >&2; exit 42"}, []string{"sha256sum"}
			}
			if stdout, stderr, code := finish(t, s.exec(t, t.Context(), nil, fail...)); stdout != "" || !strings.Contains(stderr, "it  broke") || code != 42 {
				t.Errorf("got %q, %q and code %d", stdout, stderr, code)
			}
			session := s.exec(t, t.Context(), nil, digest...)
			data := bytes.Repeat([]byte("\x00\r\n\x03\x1a\xff"), size/6)
			go func() {
				_, _ = session.Stdin().Write(data)
				_ = session.Stdin().Close()
			}()
			if stdout, _, _ := finish(t, session); !strings.Contains(stdout, fmt.Sprintf("%x", sha256.Sum256(data))) {
				t.Errorf("another input arrived: %q", stdout)
			}
		})
	}
}

func TestExecBuiltins(t *testing.T) {
	for _, tt := range shells {
		t.Run(tt.name, func(t *testing.T) {
			s := newSiteOn(t, tt.options)
			stdout, stderr, code := finish(t, s.exec(t, t.Context(), nil, "echo", "hello", "world & all"))
			// A made-up PowerShell has the echo of cmd.exe, which prints the quotes.
			if got := strings.ReplaceAll(strings.TrimRight(stdout, "\r\n"), `"`, ""); got != "hello world & all" || stderr != "" || code != 0 {
				t.Errorf("got %q, %q and code %d", stdout, stderr, code)
			}
			if _, stderr, code := finish(t, s.exec(t, t.Context(), nil, "nosuchprogram", "a b")); code == 0 || !strings.Contains(stderr, "nosuchprogram") {
				t.Errorf("a program that is not there: %q and code %d", stderr, code)
			}
		})
	}
}

// TestExecShell talks to the login shell itself.
func TestExecShell(t *testing.T) {
	for _, tt := range shells {
		t.Run(tt.name, func(t *testing.T) {
			for _, tty := range []*ssh.PTY{nil, {Columns: 101, Rows: 37}} {
				s := newSiteOn(t, tt.options)
				session := s.exec(t, t.Context(), tty)
				lines := bufio.NewReader(session.Stdout())
				say := func(line, want string) (answer string) {
					t.Helper()
					if _, err := io.WriteString(session.Stdin(), line+"\r\n"); err != nil {
						t.Fatal(err)
					}
					for want != "" {
						got, err := lines.ReadString('\n')
						if err != nil {
							t.Fatalf("waiting for %q: %q, %v", want, got, err)
						}
						if strings.Contains(got, want) && !strings.Contains(got, line) {
							return got
						}
					}
					return ""
				}
				switch s.Host.Tier() {
				case winhost.TierOpenSSH:
					// The terminal makes a line feed of each carriage return; a pipe does not.
					if tty != nil {
						say("stty size", "37 101")
					}
					say("echo $((6*7)) #", "42")
					say("exit 3 #", "")
				case winhost.TierWine:
					// Wine's cmd.exe loses a line that comes from a pipe together with another, so wait for an answer.
					say("echo ready-%OS%", "ready-Windows_NT")
					say("exit 3", "")
				default:
					if tty != nil {
						say("mode con", "Columns:        101")
						if err := session.Resize(55, 22); err != nil {
							t.Fatal(err)
						}
						hosttest.Eventually(t, "the terminal has the new size", func() bool {
							return strings.Contains(say("mode con", "Lines:"), " 22")
						})
					}
					say("hostname", s.Host.Name())
					say("exit 3", "")
				}
				if _, _, code := finish(t, session); code != 3 {
					t.Errorf("exit code %d", code)
				}
			}
		})
	}
}

// TestExecLeavesNothing proves that nothing runs on once its session is over, whoever ended it.
func TestExecLeavesNothing(t *testing.T) {
	for _, tt := range shells {
		t.Run(tt.name, func(t *testing.T) {
			s := newSiteOn(t, tt.options)
			command := map[string][]string{winhost.TierOpenSSH: {"cat"}, winhost.TierWine: {"more"}}[s.Host.Tier()]
			if command == nil {
				command = []string{"ping", "-t", "127.0.0.1"}
			}
			for _, tty := range []*ssh.PTY{nil, {}} {
				for _, command := range [][]string{command, nil} {
					for _, cancels := range []bool{false, true} {
						ctx, cancel := context.WithCancel(t.Context())
						session := s.exec(t, ctx, tty, command...)
						hosttest.Eventually(t, "it runs", func() bool { return s.Host.Running() > 0 })
						if !cancels {
							_ = session.Close()
						}
						cancel()
						if err := session.Wait(); err == nil {
							t.Error("it ended by itself")
						}
						hosttest.Eventually(t, "nothing runs", func() bool { return s.Host.Running() == 0 })
					}
				}
			}
			hosttest.Eventually(t, "the sessions are given back", func() bool { return s.Pool.Stats().Sessions == 0 })
		})
	}
}

func TestExecInterrupt(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	session := s.exec(t, t.Context(), &ssh.PTY{}, "ping", "-t", "127.0.0.1")
	if _, err := bufio.NewReader(session.Stdout()).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(session.Stdin(), "\x03"); err != nil {
		t.Fatal(err)
	}
	if _, _, code := finish(t, session); code != 0xC000013A {
		t.Errorf("exit code %#x", code)
	}
}

// probes is how often the host was asked for its shell.
func (s *site) probes() int {
	n := 0
	for _, command := range s.Host.Commands() {
		if command == shell.Probe() {
			n++
		}
	}
	return n
}

func TestExecAsksForTheShellOnce(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			session, err := s.connector.Exec(t.Context(), s.Instance, []string{"hostname"}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = session.Close()
		})
	}
	wg.Wait()
	if n := s.probes(); n != 1 {
		t.Errorf("the host was asked %d times", n)
	}
	finish(t, s.exec(t, t.Context(), nil, "hostname"))
	if n := s.probes(); n != 1 {
		t.Errorf("the host was asked %d times", n)
	}
	s.connector.Forget(s.Instance)
	finish(t, s.exec(t, t.Context(), nil, "hostname"))
	if n := s.probes(); n != 2 {
		t.Errorf("a host that was forgotten was asked %d times", n)
	}
	s.connector.Forget(s.Instance)
	session := s.exec(t, t.Context(), nil)
	_ = session.Close()
	if n := s.probes(); n != 2 {
		t.Error("a shell was asked for that nothing is quoted for")
	}
}

// TestInvalidatedWhileItIsAsked: the answer to a question from before is not used after it.
func TestInvalidatedWhileItIsAsked(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	s.SetFault(t, winhost.Fault{ExecHang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.connector.Exec(ctx, s.Instance, []string{"hostname"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	hosttest.Eventually(t, "the host is asked", func() bool { return s.probes() == 1 })
	s.SetFault(t, winhost.Fault{})
	s.connector.Invalidate(Address(s.Instance))
	finish(t, s.exec(t, t.Context(), nil, "hostname"))
	if n := s.probes(); n != 2 {
		t.Errorf("the host was asked %d times", n)
	}
	cancel()
	wg.Wait()
}

// TestShellOfAnotherInstance: instances that name one host share no question to it, nor its failure.
func TestShellOfAnotherInstance(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	other := s.Instance.DeepCopy()
	other.Namespace = "theirs"
	s.SetFault(t, winhost.Fault{ExecHang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.connector.Exec(ctx, other, []string{"hostname"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	hosttest.Eventually(t, "the host is asked", func() bool { return s.probes() == 1 })
	s.SetFault(t, winhost.Fault{})
	finish(t, s.exec(t, t.Context(), nil, "hostname"))
	if n := s.probes(); n != 2 {
		t.Errorf("the host was asked %d times", n)
	}
	cancel()
	wg.Wait()
}

// TestForgetIsOfOneInstance: an instance that is changed or deleted ends its own sessions, those as it
// was before as well, and not those of another one that names the same host and logs in as it does.
func TestForgetIsOfOneInstance(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	other := s.Instance.DeepCopy()
	other.Namespace = "theirs"
	mine := s.exec(t, t.Context(), nil, "hostname")
	defer mine.Close()
	theirs, err := s.connector.Exec(t.Context(), other, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	changed := s.Instance.DeepCopy()
	changed.Spec.HostKeys, changed.Spec.CredentialsSecretRef = nil, &v1alpha1.SecretReference{Name: "gone"}
	s.connector.Forget(changed)
	if n := s.Pool.Stats().Connections; n != 1 {
		t.Errorf("%d connections are open, want that of the other instance", n)
	}
	if _, err := io.WriteString(theirs.Stdin(), "hostname\r\nexit\r\n"); err != nil {
		t.Error(err)
	}
	if out, _, _ := finish(t, theirs); !strings.Contains(out, s.Host.Name()) {
		t.Errorf("the other session said %q", out)
	}
}

func TestExecErrors(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	exec := func(command ...string) error {
		session, err := s.connector.Exec(t.Context(), s.Instance, command, nil)
		if err == nil {
			_ = session.Close()
		}
		return err
	}
	var command *CommandError
	if err := exec("echo", "a\nb"); !errors.As(err, &command) || !strings.Contains(err.Error(), "argument 1") {
		t.Errorf("a line break for cmd.exe: %v", err)
	}

	s.connector.Forget(s.Instance)
	s.SetFault(t, winhost.Fault{ExecExit: 5})
	var shell *ShellError
	if err := exec("hostname"); !errors.As(err, &shell) || shell.Err == nil || err.Error() == "" {
		t.Errorf("a shell that prints nothing: %v", err)
	}
	s.SetFault(t, winhost.Fault{ExecHang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.connector.askShell(ctx, mustTarget(t, s)); hostsite.Reason(err) != ssh.ReasonTimedOut {
		t.Errorf("a host that does not answer is taken for one with another shell: %v", err)
	}
	s.SetFault(t, winhost.Fault{})
	if err := exec("hostname"); err != nil {
		t.Errorf("a failure was kept: %v", err)
	}

	for key := range s.Secrets {
		delete(s.Secrets, key)
	}
	var credentials *CredentialsError
	if err := exec(); !errors.As(err, &credentials) {
		t.Errorf("without credentials: %v", err)
	}
	if _, err := s.connector.Dial(t.Context(), s.Instance, 80); !errors.As(err, &credentials) {
		t.Errorf("without credentials: %v", err)
	}
}

func mustTarget(t *testing.T, s *site) ssh.Target {
	t.Helper()
	target, err := s.connector.Target(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestExecOnATerminal: cmd.exe reads a line that comes with a terminal in another way.
func TestExecOnATerminal(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	command := []string{"args", "b c"}
	for _, tt := range []struct {
		tty   *ssh.PTY
		quote func(shell.Shell, []string) (string, error)
	}{{nil, shell.CommandLine}, {&ssh.PTY{}, shell.TerminalCommandLine}} {
		want, err := tt.quote(shell.Cmd, command)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.connector.commandLine(t.Context(), mustTarget(t, s), command, tt.tty)
		if err != nil || got != want {
			t.Errorf("terminal %v: got %q, %v, want %q", tt.tty != nil, got, err, want)
		}
	}
}

// TestShellIsAskedAgain: nothing reports that an administrator has set another login shell.
func TestShellIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connector, asked := New(Options{}), 0
		for _, want := range []int{1, 1, 2} {
			_, _ = connector.shells.Get(t.Context(), "host", "me", func(context.Context) (shell.Shell, error) { asked++; return shell.Cmd, nil })
			if asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
			time.Sleep(6 * time.Minute) //nolint:forbidigo // the time of the bubble
		}
	})
}

// TestProfilesThatPrint: what comes before the answer does not hide it, and is not kept.
func TestProfilesThatPrint(t *testing.T) {
	var out tail
	for _, part := range []string{strings.Repeat("x", maxProbe-3), "abc", "d", strings.Repeat("y", maxProbe-2) + "z", "."} {
		if n, err := out.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		if len(out) > maxProbe || !strings.HasSuffix(string(out), part[len(part)-1:]) {
			t.Errorf("%d bytes are kept, and end in %q", len(out), out[len(out)-1])
		}
	}
	if want := "d" + strings.Repeat("y", maxProbe-2) + "z."; string(out) != want[len(want)-maxProbe:] {
		t.Errorf("got %q", out)
	}
}

// TestPortFailure: a port that cannot be reached is no host that cannot.
func TestPortFailure(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string // part of the message about the port; empty: it is about the host
	}{
		{"nothing listens", &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonConnectionRefused}, "port 80: nothing on the host accepts connections there"},
		{"forbidden", &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonSessionRefused}, "port 80: the SSH server of the host does not allow port forwarding"},
		{"the port of SSH", &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}, ""},
		{"lost", &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonConnectionLost}, ""},
		{"another error", errors.New("other"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := portFailure(80, tt.err)
			var port *PortError
			if !errors.Is(err, tt.err) || errors.As(err, &port) != (tt.want != "") || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := (&PortError{Port: 80, Err: errors.New("other")}); !strings.Contains(err.Error(), "nothing on the host") {
		t.Error(err)
	}
}

func TestDial(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, tt := range []winhost.Options{{}, {Tier: winhost.TierOpenSSH}} {
		t.Run(tt.Tier, func(t *testing.T) {
			s := newSiteOn(t, tt)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn, err := s.connector.Dial(ctx, s.Instance, port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "ping"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 4)
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
				t.Fatalf("got %q, %v", got, err)
			}
			cancel()
			if _, err := conn.Read(got); err == nil {
				t.Error("the connection outlives its context")
			}

			refused, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			free := refused.Addr().(*net.TCPAddr).Port
			refused.Close()
			_, err = s.connector.Dial(t.Context(), s.Instance, free)
			var failed *PortError
			if !errors.As(err, &failed) || failed.Port != free || hostsite.Reason(err) != ssh.ReasonConnectionRefused || !strings.Contains(err.Error(), fmt.Sprintf("port %d: nothing on the host", free)) {
				t.Errorf("a port where nothing listens: %v", err)
			}
			var command *CommandError
			for _, port := range []int{-1, 0, 65536} {
				if _, err := s.connector.Dial(t.Context(), s.Instance, port); !errors.As(err, &command) || err.Error() != fmt.Sprintf("port %d is not between 1 and 65535", port) {
					t.Errorf("port %d: %v", port, err)
				}
			}
			for _, port := range []int{1, 65535} { // where nothing listens
				if _, err := s.connector.Dial(t.Context(), s.Instance, port); !errors.As(err, &failed) {
					t.Errorf("port %d: %v", port, err)
				}
			}
			hosttest.Eventually(t, "the connections are given back", func() bool { return s.Pool.Stats().Forwards == 0 })
			if n := len(s.Host.Commands()); n > 0 {
				t.Errorf("%d commands were run", n)
			}
		})
	}
}
