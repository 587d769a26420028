// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	gorilla "github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// execURL is the URL of an exec. stdin and tty ask for more than the two outputs.
func execURL(s *system.System, namespace, name string, stdin, tty bool, command ...string) *url.URL {
	query := url.Values{"command": command, "stdout": {"true"}, "stdin": {strconv.FormatBool(stdin)}, "tty": {strconv.FormatBool(tty)}, "stderr": {strconv.FormatBool(!tty)}}
	u, err := url.Parse(s.URL() + subresource(namespace, name, "exec", query.Encode()))
	if err != nil {
		panic(err) // made of names that the tests chose
	}
	return u
}

// executor is what kubectl exec uses.
func executor(t *testing.T, config *rest.Config, u *url.URL) remotecommand.Executor {
	t.Helper()
	e, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ran is how a command ended.
type ran struct {
	stdout, stderr string
	code           int
}

// execOn runs a command to its end.
func execOn(t *testing.T, namespace, name, stdin string, command ...string) (ran, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
	if stdin != "" {
		options.Stdin = strings.NewReader(stdin)
	}
	err := executor(t, sys.AdminConfig(), execURL(sys, namespace, name, stdin != "", false, command...)).StreamWithContext(ctx, options)
	if exit, ok := errors.AsType[clientexec.CodeExitError](err); ok {
		return ran{out.String(), errOut.String(), exit.Code}, nil
	}
	return ran{out.String(), errOut.String(), 0}, err
}

// newStreamHost is a host with an instance that is logged in to.
func newStreamHost(t *testing.T, tier string) (namespace string, host winhost.Host) {
	t.Helper()
	host = startHost(t, winhost.Options{Tier: tier})
	namespace = newNamespace(t)
	createInstance(t, namespace, "w", host, "")
	waitFor(t, namespace, "w", loggedIn)
	// From then on the host is known, whatever happens to it.
	eventually(t, "the host has said which machine it is", func() error {
		instance, err := sys.Windows.WindowsV1alpha1().WindowsInstances(namespace).Get(t.Context(), "w", metav1.GetOptions{})
		if err == nil && instance.Status.Version == "" {
			err = fmt.Errorf("its status is %+v", instance.Status)
		}
		return err
	})
	return namespace, host
}

// TestExec runs commands through kube-apiserver and windows-apiserver with the clients
// of kubectl, on a host with OpenSSH.
func TestExec(t *testing.T) {
	t.Parallel()
	namespace, host := newStreamHost(t, winhost.TierOpenSSH)
	for _, test := range []struct {
		name, stdin string
		command     []string
		want        ran
	}{
		{"outputs apart and an exit code", "", []string{"sh", "-c", "printf out; printf err >&2; exit 7"}, ran{"out", "err", 7}},
		{"arguments as they are", "", []string{"printf", "%s|", "a b", `"q"`, "$HOME", "%PATH%", "'", "", "*", "a&b|c>d"}, ran{stdout: `a b|"q"|$HOME|%PATH%|'||*|a&b|c>d|`}},
		{"input to its end", "hello\nworld\n", []string{"wc", "-c"}, ran{stdout: "12\n"}},
		{"input that nobody reads", strings.Repeat("x", 1<<20), []string{"true"}, ran{}},
		{"binary", "\x00\xff\xfe\r\n\x1b", []string{"cat"}, ran{stdout: "\x00\xff\xfe\r\n\x1b"}},
		{"a program that is not there", "", []string{"no-such-program"}, ran{code: 127}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := execOn(t, namespace, "w", test.stdin, test.command...)
			if test.want.code == 127 {
				got.stderr = "" // the words of the shell
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	t.Run("both directions at once", func(t *testing.T) { testBothDirections(t, namespace) })
	t.Run("terminal", func(t *testing.T) { testTerminal(t, namespace) })
	t.Run("client vanishes", func(t *testing.T) { testClientVanishes(t, namespace, host) })
	t.Run("client is killed", func(t *testing.T) { testClientKilled(t, namespace, host) })
	t.Run("session events", func(t *testing.T) { testSessionEvents(t, namespace) })
	t.Run("goes on when it is asked again", func(t *testing.T) {
		t.Parallel() // once a minute
		got, err := execOn(t, namespace, "w", "", "sh", "-c", "sleep 65; echo still there")
		if err != nil || got.stdout != "still there\n" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// testBothDirections sends a quarter of a GiB to cat and compares what comes back.
func testBothDirections(t *testing.T, namespace string) {
	const size = 256 << 20
	sent, received := sha256.New(), sha256.New()
	source := io.TeeReader(io.LimitReader(rand.Reader, size), sent)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e := executor(t, sys.AdminConfig(), execURL(sys, namespace, "w", true, false, "cat"))
	if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: source, Stdout: received, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if got, want := hex.EncodeToString(received.Sum(nil)), hex.EncodeToString(sent.Sum(nil)); got != want {
		t.Errorf("what came back has the digest %s, want %s", got, want)
	}
}

// terminalSizes are the sizes of a terminal that is made larger once.
type terminalSizes chan remotecommand.TerminalSize

func (s terminalSizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// screen is what a terminal shows; it may be read while it is written.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the terminal shows %q", text), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !strings.Contains(s.text.String(), text) {
			return fmt.Errorf("it shows %q", s.text.String())
		}
		return nil
	})
}

// testTerminal types into a shell, changes the size of its terminal and interrupts a
// command with Ctrl-C.
func testTerminal(t *testing.T, namespace string) {
	sizes := terminalSizes(make(chan remotecommand.TerminalSize, 1))
	defer close(sizes)
	sizes <- remotecommand.TerminalSize{Width: 91, Height: 33}
	shown := &screen{}
	keyboard, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		e := executor(t, sys.AdminConfig(), execURL(sys, namespace, "w", true, true))
		done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: keyboard, Stdout: shown, Tty: true, TerminalSizeQueue: sizes})
	}()
	enter := func(text string) {
		t.Helper()
		if _, err := io.WriteString(typed, text); err != nil {
			t.Fatal(err)
		}
	}
	enter("until [ \"$(stty size)\" = '33 91' ]; do :; done; echo first-$((1+1))\n")
	shown.waitFor(t, "first-2")
	sizes <- remotecommand.TerminalSize{Width: 120, Height: 40}
	enter("until [ \"$(stty size)\" = '40 120' ]; do :; done; echo second-$((1+1))\n")
	shown.waitFor(t, "second-2")
	// One process from the echo on: a shell that is about to start another does not always
	// pass an interrupt on to it.
	enter("sh -c 'echo run-$((1+1)); exec sleep 10000'\n")
	shown.waitFor(t, "run-2")
	enter("\x03")
	enter("echo third-$((1+1)); exit 3\n")
	shown.waitFor(t, "third-2")
	var exit clientexec.CodeExitError
	if err := <-done; !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("the shell ended with %v, want exit code 3", err)
	}
}

// testClientVanishes ends a client while its command runs, and looks for what it
// leaves behind on the host.
func testClientVanishes(t *testing.T, namespace string, host winhost.Host) {
	waitIdle(t, host)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := &screen{}
	done := make(chan error, 1)
	go func() {
		e := executor(t, sys.AdminConfig(), execURL(sys, namespace, "w", true, false, "sh", "-c", "echo started; exec cat"))
		endless, _ := io.Pipe()
		done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: endless, Stdout: started, Stderr: io.Discard})
	}()
	started.waitFor(t, "started")
	cancel()
	<-done
	waitIdle(t, host)
}

// waitIdle waits until nothing runs on a host, where the controller runs something now and then.
func waitIdle(t *testing.T, host winhost.Host) {
	t.Helper()
	eventually(t, "nothing is left on the host", func() error {
		if n := host.Running(); n > 0 {
			return fmt.Errorf("%d commands run", n)
		}
		return nil
	})
}

// testClientKilled kills the process of a client, which says goodbye to nobody, while its
// command runs, and looks for what it leaves behind on the host.
func testClientKilled(t *testing.T, namespace string, host winhost.Host) {
	waitIdle(t, host)
	started := &screen{}
	client := pluginCommand(t.Context(), sys, "exec", "-n", namespace, "w", "-i", "--", "sh", "-c", "echo started; exec cat")
	client.Stdout = started
	input, err := client.StdinPipe() // nothing comes through it, and it does not end
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	started.waitFor(t, "started")
	if host.Running() == 0 {
		t.Error("no command runs on the host while one should")
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(); err == nil {
		t.Error("a client that was killed ended well")
	}
	waitIdle(t, host)
}

// testSessionEvents finds who ran which program in the events of the instance, and no arguments.
func testSessionEvents(t *testing.T, namespace string) {
	if _, err := execOn(t, namespace, "w", "", "sh", "-c", "exit 5 # S3cret-Pass"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there are events of the session", func() error {
		list, err := sys.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var notes []string
		var start, end bool
		for _, e := range list.Items {
			notes = append(notes, e.Reason+": "+e.Message)
			start = start || e.Reason == "SessionStarted" && strings.Contains(e.Message, "runs sh. ")
			end = end || e.Reason == "SessionEnded" && strings.Contains(e.Message, "code 5")
		}
		if !start || !end {
			return fmt.Errorf("got %q", notes)
		}
		if strings.Contains(strings.Join(notes, " "), "S3cret") {
			t.Errorf("who may view the namespace reads the arguments of commands: %q", notes)
		}
		return nil
	})
}

// TestExecInCmd runs commands on hosts whose shell is cmd.exe.
func TestExecInCmd(t *testing.T) {
	t.Parallel()
	for _, tier := range []string{winhost.TierInProcess, winhost.TierWine} {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			if tier == winhost.TierWine {
				if err := winhost.WineAvailable(); err != nil {
					t.Skipf("no Wine on this machine: %v", err)
				}
			}
			namespace, _ := newStreamHost(t, tier)
			got, err := execOn(t, namespace, "w", "", "echo", "a&b|c>d", "100%")
			if err != nil || strings.TrimSpace(got.stdout) != "a&b|c>d 100%" || got.code != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
			got, err = execOn(t, namespace, "w", "", "exit", "3")
			if err != nil || got.code != 3 {
				t.Errorf("exit 3: got %+v, %v", got, err)
			}
		})
	}
}

// TestExecRefused finds that what cannot begin is refused with a Status.
func TestExecRefused(t *testing.T) {
	t.Parallel()
	namespace, host := newStreamHost(t, winhost.TierInProcess)
	_, err := execOn(t, namespace, "nobody", "", "hostname")
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("an unknown instance: got %v", err)
	}
	_, err = execOn(t, namespace, "w", "", "echo", "two\nlines")
	if err == nil || !strings.Contains(err.Error(), "line") {
		t.Errorf("an argument that cmd.exe cannot take: got %v", err)
	}
	testSPDYRefused(t, namespace)
	if err := host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	_, err = execOn(t, namespace, "w", "", "hostname")
	if err == nil || !strings.Contains(err.Error(), "Connect") && !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a dead host: got %v", err)
	}
}

// testSPDYRefused has the clients of older kubectl, through kube-apiserver, say what is needed.
func testSPDYRefused(t *testing.T, namespace string) {
	t.Helper()
	config := sys.AdminConfig()
	e, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, execURL(sys, namespace, "w", false, false, "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "kubectl windows exec") {
		t.Errorf("exec over SPDY: got %v", err)
	}
	u, err := url.Parse(sys.URL() + subresource(namespace, "w", "portforward", ""))
	if err != nil {
		t.Fatal(err)
	}
	roundTripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := clientportforward.NewSPDYOverWebsocketDialerForStreaming(u, config)
	if err != nil {
		t.Fatal(err)
	}
	// As kubectl port-forward does it.
	dialer := clientportforward.NewFallbackDialerForStreaming(tunnel, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, u), httpstream.IsUpgradeFailure)
	if _, _, err = dialer.Dial("portforward.k8s.io"); err == nil || !strings.Contains(err.Error(), "kubectl windows port-forward") {
		t.Errorf("a port forward over SPDY: got %v", err)
	}
}

// echoServer answers on a port of this machine, which is the port of every stand-in:
// each line comes back, and after the end of the input a farewell.
func echoServer(t *testing.T, port int) {
	t.Helper()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
				_, _ = io.WriteString(conn, "farewell")
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
}

// forward forwards a local port to a port of the host with the plugin, until the end of the
// test. It returns the local address, and what the plugin says.
func forward(t *testing.T, namespace, name string, port int) (address string, said *screen) {
	t.Helper()
	return forwardIn(t, sys, namespace, name, port)
}

// forwardIn is forward for a host of another system.
func forwardIn(t *testing.T, s *system.System, namespace, name string, port int) (address string, said *screen) {
	t.Helper()
	said = &screen{}
	ctx, cancel := context.WithCancel(t.Context())
	client := pluginCommand(ctx, s, "port-forward", "-n", namespace, name, "--address=127.0.0.1", fmt.Sprintf(":%d", port))
	client.Stdout, client.Stderr = said, said
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := client.Wait(); err == nil {
			t.Error("a port forward ended by itself")
		}
	})
	said.waitFor(t, fmt.Sprintf(" -> %d\n", port))
	said.mu.Lock()
	defer said.mu.Unlock()
	address, _, _ = strings.Cut(strings.TrimPrefix(said.text.String(), "Forwarding from "), " ")
	return address, said
}

// TestPortForward forwards ports through kube-apiserver and windows-apiserver.
func TestPortForward(t *testing.T) {
	t.Parallel()
	const (
		port      = 9182 // windows_exporter
		nobody    = 5986 // WinRM over HTTPS: allowed, and nobody listens
		forbidden = 2375 // Docker
	)
	echoServer(t, port)
	for _, tier := range []string{winhost.TierInProcess, winhost.TierOpenSSH} {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			namespace, _ := newStreamHost(t, tier)
			address, _ := forward(t, namespace, "w", port)
			var wg sync.WaitGroup
			for n := range 20 {
				wg.Go(func() { exchange(t, address, strings.Repeat(fmt.Sprintf("connection %d ", n), 10000)) })
			}
			wg.Wait()
			address, said := forward(t, namespace, "w", nobody)
			refusedConnection(t, address)
			said.waitFor(t, "nothing on the host accepts connections there")
			_, stderr, code := plugin(t, sys, "port-forward", "-n", namespace, "w", fmt.Sprintf(":%d", forbidden))
			if code != 1 || !strings.Contains(stderr, "port 2375 is not allowed") {
				t.Errorf("a port that is not allowed: code %d, %s", code, stderr)
			}
			testPortsForOthers(t, namespace, port, nobody)
		})
	}
}

// testPortsForOthers forwards two ports over one WebSocket, as the clients for other languages
// than Go do it.
func testPortsForOthers(t *testing.T, namespace string, port, nobody int) {
	t.Helper()
	config := sys.AdminConfig()
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sys.URL()+subresource(namespace, "w", "portforward", fmt.Sprintf("ports=%d,%d", nobody, port)), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := websocket.Negotiate(transport, holder, request, "v5.channel.k8s.io", "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Subprotocol() != "v4.channel.k8s.io" {
		t.Errorf("it speaks %s", conn.Subprotocol())
	}
	if err := conn.WriteMessage(gorilla.BinaryMessage, []byte("\x02hello")); err != nil {
		t.Fatal(err)
	}
	got := map[byte]string{}
	for !strings.HasSuffix(got[2], "hello") || len(got[1]) <= 2 {
		_, message, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("%v, after %q", err, got)
		}
		got[message[0]] += string(message[1:])
	}
	number := func(port int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(port))) }
	if got[0] != number(nobody) || got[2] != number(port)+"hello" || got[3] != number(port) || !strings.Contains(got[1], "nothing on the host accepts connections there") {
		t.Errorf("got %q", got)
	}
}

// exchange sends text, ends its side, and wants it back with the farewell.
func exchange(t *testing.T, address, text string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != text+"farewell" {
		t.Errorf("got %d bytes, %v, want %d and the farewell", len(got), err, len(text))
	}
}

func refusedConnection(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return // it was broken off already
	}
	defer conn.Close()
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("got %q from a port that is refused", got)
	}
}
