// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

func certificatePEM(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestExec(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	exit := func(code int) program { return func(*process) int { return code } }
	echo := func(p *process) int {
		if _, err := io.Copy(p.stdout, p.stdin); err != nil {
			return 1
		}
		return 0
	}
	every := []byte{}
	for i := range 256 {
		every = append(every, byte(i))
	}
	for _, test := range []struct {
		name    string
		run     program
		stdin   []byte // nil: none
		stdout  string
		stderr  string
		code    int // what the client sees
		result  int // what the server knows
		needEOF bool
	}{
		{name: "success", run: exit(0)},
		{name: "a failure", run: exit(7), code: 7, result: 7},
		{name: "the highest exit code", run: exit(255), code: 255, result: 255},
		{name: "an exit code of Windows", run: exit(0xC000013A), code: 255, result: 0xC000013A},
		{name: "a negative exit code", run: exit(-1), code: 255, result: -1},
		{name: "output apart", run: func(p *process) int {
			_, _ = io.WriteString(p.stdout, "out")
			_, _ = io.WriteString(p.stderr, "err")
			return 3
		}, stdout: "out", stderr: "err", code: 3, result: 3},
		{name: "input with its end", run: echo, stdin: []byte("hello\r\n"), stdout: "hello\r\n", needEOF: true},
		{name: "empty input", run: echo, stdin: []byte{}, needEOF: true},
		{name: "every byte", run: echo, stdin: every, stdout: string(every), needEOF: true},
		{name: "no input is end of file", run: echo},
		{name: "input that nobody reads", run: exit(4), stdin: bytes.Repeat([]byte("x"), 1<<20), code: 4, result: 4},
		{name: "input read in part", run: func(p *process) int {
			line := make([]byte, 5)
			_, _ = io.ReadFull(p.stdin, line)
			_, _ = p.stdout.Write(line)
			return 0
		}, stdin: []byte("hello" + strings.Repeat("x", 1<<20)), stdout: "hello"},
	} {
		for _, protocol := range protocols {
			if test.needEOF && protocol.name == "WebSocket v4" {
				continue // has no way to say so
			}
			t.Run(test.name+", "+protocol.name, func(t *testing.T) {
				server := serveExec(t, Config{}, test.run)
				options := remotecommand.StreamOptions{}
				var stdout, stderr bytes.Buffer
				options.Stdout, options.Stderr = &stdout, &stderr
				query := "stdout&stderr"
				if test.stdin != nil {
					options.Stdin = bytes.NewReader(test.stdin)
					query += "&stdin"
				}
				executor, err := protocol.executor(server.config(), server.url(query))
				if err != nil {
					t.Fatal(err)
				}
				err = executor.StreamWithContext(within(t), options)
				if code := exitCode(err); code != test.code {
					t.Errorf("the client got %v, want exit code %d", err, test.code)
				}
				if stdout.String() != test.stdout || stderr.String() != test.stderr {
					t.Errorf("got %q and %q", stdout.String(), stderr.String())
				}
				r := server.result(t)
				if r.End != EndExited || r.ExitCode != test.result || r.Err != nil {
					t.Errorf("the server got %+v", r)
				}
				if want := int64(len(test.stdout) + len(test.stderr)); r.Sent != want {
					t.Errorf("sent %d, want %d", r.Sent, want)
				}
			})
		}
	}
}

// exitCode is what kubectl would exit with; -1 when there is none.
func exitCode(err error) int {
	var code clientexec.CodeExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.Code
	default:
		return -1
	}
}

// stream is a reader of random bytes.
type stream struct {
	random *rand.ChaCha8
	left   int64
	sum    hash.Hash
}

func newStreamOf(size int64) *stream {
	return &stream{rand.NewChaCha8([32]byte{1}), size, sha256.New()}
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.left)]
	n, _ := s.random.Read(p)
	s.left -= int64(n)
	s.sum.Write(p[:n])
	return n, nil
}

// bulk is what is sent in each direction.
func bulk() int64 {
	if testing.Short() {
		return 16 << 20
	}
	return 256 << 20
}

func TestExecBulk(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := serveExec(t, Config{}, func(p *process) int {
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(p.stdout, sum), p.stdin); err != nil {
			return 1
		}
		_, _ = fmt.Fprintf(p.stderr, "%x", sum.Sum(nil))
		return 0
	})
	input, output := newStreamOf(bulk()), sha256.New()
	var stderr bytes.Buffer
	err := v5(t, server, server.url("stdin&stdout&stderr")).StreamWithContext(within(t),
		remotecommand.StreamOptions{Stdin: input, Stdout: output, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x", input.sum.Sum(nil))
	if got := fmt.Sprintf("%x", output.Sum(nil)); got != want || stderr.String() != want {
		t.Errorf("sent %s, the host got %s, back came %s", want, stderr.String(), got)
	}
	if r := server.result(t); r.Received != bulk() || r.Sent != bulk()+int64(stderr.Len()) {
		t.Errorf("got %+v", r)
	}
}

// sizeQueue is the terminal of a client.
type sizeQueue chan *remotecommand.TerminalSize

func (q sizeQueue) Next() *remotecommand.TerminalSize { return <-q }

func TestExecTerminal(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	recorder := &memory{}
	server := serveExec(t, Config{Recorder: recorder}, func(p *process) int {
		for range 2 {
			select {
			case size := <-p.sizes:
				_, _ = fmt.Fprintf(p.stdout, "%dx%d\r\n", size.Width, size.Height)
			case <-p.killed:
				return 1
			}
		}
		return 0
	})
	sizes := make(sizeQueue, 1)
	sizes <- &remotecommand.TerminalSize{Width: 80, Height: 25}
	in, typing := io.Pipe()
	defer typing.Close()
	defer close(sizes)
	var once sync.Once
	stdout := writerFunc(func(p []byte) (int, error) {
		once.Do(func() { sizes <- &remotecommand.TerminalSize{Width: 65535, Height: 1} })
		return len(p), nil
	})
	err := v5(t, server, server.url("stdin&stdout&stderr&tty")).StreamWithContext(within(t),
		remotecommand.StreamOptions{Stdin: in, Stdout: stdout, Tty: true, TerminalSizeQueue: sizes})
	if err != nil {
		t.Fatal(err)
	}
	if r := server.result(t); r.End != EndExited {
		t.Errorf("got %+v", r)
	}
	// A size is recorded after it was set, so that the output may come first.
	for _, want := range []string{"80x25;", "80x25\r\n", "65535x1;", "65535x1\r\n"} {
		if got := recorder.String(); !strings.Contains(got, want) {
			t.Errorf("recorded %q without %q", got, want)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// memory is a recorder that may fail.
type memory struct {
	bytes.Buffer
	fail error
}

func (m *memory) Output(p []byte) error {
	if m.fail != nil {
		return m.fail
	}
	_, err := m.Write(p)
	return err
}

func (m *memory) Input(p []byte) error {
	if m.fail != nil {
		return m.fail
	}
	_, err := fmt.Fprintf(m, "<%s>", p)
	return err
}

func (m *memory) Resize(columns, rows uint16) error {
	_, err := fmt.Fprintf(m, "%dx%d;", columns, rows)
	return err
}

// TestExecEnds covers the ends of a session that are not the end of its command.
// TestExecRecordsWhatIsLeftOut: neither a script that comes by standard input nor output that nobody
// asked for goes past a recording.
func TestExecRecordsWhatIsLeftOut(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	recorder := &memory{}
	s := serveExec(t, Config{Recorder: recorder}, func(p *process) int {
		script, err := io.ReadAll(p.stdin)
		if err != nil {
			return 1
		}
		_, err = fmt.Fprintf(p.stdout, "ran %s", script)
		if err != nil {
			return 1
		}
		return 0
	})
	err := v5(t, s, s.url("stdin&stderr")).StreamWithContext(within(t), remotecommand.StreamOptions{Stdin: strings.NewReader("whoami"), Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	s.result(t)
	if got := recorder.String(); got != "<whoami>ran whoami" {
		t.Errorf("recorded %q", got)
	}
}

func TestExecEnds(t *testing.T) {
	waits := func(p *process) int {
		_, _ = io.WriteString(p.stdout, "ready")
		<-p.killed
		return 0
	}
	drain := make(chan struct{})
	close(drain)
	lost := apierrors.NewServiceUnavailable("the connection to the host is lost")
	for _, test := range []struct {
		name   string
		config Config
		run    program
		lost   error
		want   End
		client string // part of the client's error
	}{
		{"the server stops", Config{Drain: drain}, waits, nil, EndDrained, "shutting down"},
		{"idle", Config{IdleTimeout: 50 * time.Millisecond}, waits, nil, EndIdle, "nothing was sent for 50ms"},
		{"the recorder fails", Config{Recorder: &memory{fail: errors.New("disk full")}}, waits, nil, EndRecordingFailed, "recording it failed: disk full"},
		{"the host is lost", Config{}, func(*process) int { return 0 }, lost, EndFailed, "the connection to the host is lost"},
		{"nobody knows", Config{}, func(*process) int { return 0 }, errors.New("something"), EndFailed, "something"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Cleanup(func() { checkLeaks(t) })
			var session *fakeSession
			server := serve(t, func(w http.ResponseWriter, r *http.Request) Result {
				session = start(test.run)
				session.lost = test.lost
				return ServeExec(w, r, ExecOptions{Stdin: true, Stdout: true}, test.config, session)
			})
			in, typing := io.Pipe()
			defer typing.Close()
			err := v5(t, server, server.url("")).StreamWithContext(within(t), remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), test.client) || exitCode(err) != -1 {
				t.Errorf("the client got %v, want %q", err, test.client)
			}
			if r := server.result(t); r.End != test.want {
				t.Errorf("got %+v, want %s", r, test.want)
			}
			<-session.finished
		})
	}
}

// TestExecClientGone covers clients that do not say goodbye. The command ends, and
// does not take the end of the client for the end of its input.
func TestExecClientGone(t *testing.T) {
	for _, test := range []struct {
		name  string
		stuck bool // the command does not take its input
		cut   func(*testServer, context.CancelFunc)
	}{
		{"Ctrl-C", false, func(_ *testServer, cancel context.CancelFunc) { cancel() }},
		{"connection closed", false, func(s *testServer, _ context.CancelFunc) { s.cut.close(false) }},
		{"connection reset", false, func(s *testServer, _ context.CancelFunc) { s.cut.close(true) }},
		{"reset with input on its way", true, func(s *testServer, _ context.CancelFunc) { s.cut.close(true) }},
		{"closed with input on its way", true, func(s *testServer, _ context.CancelFunc) { s.cut.close(false) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Cleanup(func() { checkLeaks(t) })
			ended := make(chan error, 1)
			server := serveExec(t, Config{KeepAlive: unhurried}, func(p *process) int {
				_, _ = io.WriteString(p.stdout, "ready")
				if test.stuck {
					<-p.killed
					ended <- errKilled
					return 0
				}
				_, err := io.Copy(io.Discard, p.stdin)
				ended <- err
				return 0
			})
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			ready := make(chan struct{}, 1)
			stdout := writerFunc(func(p []byte) (int, error) {
				select {
				case ready <- struct{}{}:
				default:
				}
				return len(p), nil
			})
			var input io.Reader = newStreamOf(1 << 40)
			if !test.stuck {
				in, typing := io.Pipe()
				defer typing.Close()
				input = in
			}
			client := make(chan error, 1)
			e := v5(t, server, server.proxied(t, "stdin&stdout"))
			go func() {
				client <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: stdout})
			}()
			<-ready
			test.cut(server, cancel)
			if r := server.result(t); r.End != EndClientGone {
				t.Errorf("got %+v", r)
			}
			if err := <-ended; err == nil {
				t.Error("the command has read the end of its input")
			}
			<-client
		})
	}
}

// TestExecQuiet has a session last much longer than a client may be silent.
func TestExecQuiet(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	c := Config{KeepAlive: unhurried}
	server := serveExec(t, c, func(p *process) int {
		select {
		case <-time.After(2 * c.silence()):
			_, _ = io.WriteString(p.stdout, "still here")
			return 0
		case <-p.killed:
			return 1
		}
	})
	in, typing := io.Pipe()
	defer typing.Close()
	var stdout bytes.Buffer
	err := v5(t, server, server.url("stdin&stdout")).StreamWithContext(within(t), remotecommand.StreamOptions{Stdin: in, Stdout: &stdout})
	if err != nil || stdout.String() != "still here" {
		t.Errorf("got %q, %v", stdout.String(), err)
	}
	if r := server.result(t); r.End != EndExited {
		t.Errorf("got %+v", r)
	}
}

// TestExecSlowClient has a client that takes no output for longer than it may be
// silent. The command waits meanwhile: nothing is buffered without a bound.
func TestExecSlowClient(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	c := Config{KeepAlive: unhurried}
	const size = 64 << 20
	written := make(chan struct{})
	server := serveExec(t, c, func(p *process) int {
		defer close(written)
		if _, err := io.Copy(p.stdout, newStreamOf(size)); err != nil {
			return 1
		}
		return 0
	})
	pause := time.After(2 * c.silence())
	var paused sync.Once
	var n int64
	stdout := writerFunc(func(p []byte) (int, error) {
		paused.Do(func() {
			select {
			case <-pause:
			case <-written:
				t.Error("all output was taken from the command although the client took nothing")
			}
		})
		n += int64(len(p))
		return len(p), nil
	})
	err := v5(t, server, server.url("stdout")).StreamWithContext(within(t), remotecommand.StreamOptions{Stdout: stdout})
	if err != nil || n != size {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

// TestNoUpgrade covers requests that get an ordinary answer. The session ends.
func TestNoUpgrade(t *testing.T) {
	upgrade := func(to string, header ...string) map[string]string {
		all := map[string]string{"Connection": "Upgrade", "Upgrade": to}
		for i := 0; i < len(header); i += 2 {
			all[header[i]] = header[i+1]
		}
		return all
	}
	webSocket := func(protocols string) map[string]string {
		return upgrade("websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol", protocols)
	}
	for _, test := range []struct {
		name         string
		method       string
		header       map[string]string
		exec, portFw string // parts of the messages
	}{
		{"no upgrade", http.MethodGet, nil, "upgrade the connection to WebSocket", "upgrade the connection to WebSocket"},
		{"another upgrade", http.MethodGet, upgrade("h2c"), "only WebSocket is spoken", "only WebSocket is spoken"},
		{"no protocol", http.MethodGet, webSocket(""), "none is supported: v5.channel.k8s.io, v4.channel.k8s.io", "none is supported: v4.channel.k8s.io, v5.channel.k8s.io"},
		{"an old protocol", http.MethodGet, webSocket("base64.channel.k8s.io"), "none is supported", "none is supported"},
		{"no key", http.MethodGet, upgrade("websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Protocol", "v5.channel.k8s.io"), "needs the headers", "needs the headers"},
		{"a key that is none", http.MethodGet, upgrade("websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "secret", "Sec-WebSocket-Protocol", "v5.channel.k8s.io"), "needs the headers", "needs the headers"},
		{"a key that is too short", http.MethodGet, upgrade("websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAA", "Sec-WebSocket-Protocol", "v5.channel.k8s.io"), "needs the headers", "needs the headers"},
		{"SPDY", http.MethodPost, upgrade("SPDY/3.1", "X-Stream-Protocol-Version", "v4.channel.k8s.io"), "kubectl windows exec", "kubectl windows port-forward"},
		{"SPDY by GET", http.MethodGet, upgrade("SPDY/3.1", "X-Stream-Protocol-Version", "portforward.k8s.io"), "NewWebSocketExecutor", "one for each connection"},
		{"SPDY in a WebSocket", http.MethodGet, webSocket("SPDY/3.1+portforward.k8s.io"), "SPDY", "kubectl windows port-forward"},
		{"POST without an upgrade", http.MethodPost, nil, "a client that opens a WebSocket", "kubectl windows port-forward"},
	} {
		t.Run(test.name, func(t *testing.T) {
			session := start(func(p *process) int { <-p.killed; return 0 })
			for _, of := range []struct {
				want   string
				handle func(w http.ResponseWriter, r *http.Request) Result
			}{
				{test.exec, func(w http.ResponseWriter, r *http.Request) Result {
					return ServeExec(w, r, ExecOptions{Stdout: true}, Config{}, session)
				}},
				{test.portFw, func(w http.ResponseWriter, r *http.Request) Result {
					return ServePortForward(w, r, Config{}, []int32{5985}, nil)
				}},
			} {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), test.method, "/", nil)
				for k, v := range test.header {
					r.Header.Set(k, v)
				}
				if result := of.handle(w, r); result.End != EndNotUpgraded || result.Err == nil {
					t.Errorf("got %+v", result)
				}
				var status metav1.Status
				if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != http.StatusBadRequest || status.Code != http.StatusBadRequest || status.Kind != "Status" || !strings.Contains(status.Message, of.want) {
					t.Errorf("got %d %s, %v, want %q", w.Code, w.Body, err, of.want)
				}
			}
			<-session.finished
		})
	}
}

// TestClientsOfSPDY has the clients of client-go that speak SPDY say what is to be done.
func TestClientsOfSPDY(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := serveExec(t, Config{}, func(p *process) int { <-p.killed; return 0 })
	executor, err := remotecommand.NewSPDYExecutor(server.config(), "POST", server.url("stdout"))
	if err != nil {
		t.Fatal(err)
	}
	err = executor.StreamWithContext(within(t), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "kubectl windows exec") {
		t.Errorf("exec: got %v", err)
	}
	server.result(t)

	server = servePorts(t, Config{}, newHost(t, echo), 5985)
	transport, upgrader, err := spdy.RoundTripperFor(server.config())
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(server.url(""), server.config())
	if err != nil {
		t.Fatal(err)
	}
	for name, dialer := range map[string]httpstream.Dialer{
		"SPDY":                spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, server.url("")),
		"SPDY in a WebSocket": tunnel,
	} {
		_, _, err = dialer.Dial("portforward.k8s.io")
		if err == nil || !strings.Contains(err.Error(), "kubectl windows port-forward") {
			t.Errorf("%s: got %v", name, err)
		}
		server.result(t)
	}
}

// TestExecOthers does what the clients for Python and JavaScript do: they offer several
// protocols, the former sends text, and both read the exit code out of the Status.
func TestExecOthers(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	for name, test := range map[string]struct {
		offered []string
		spoken  string
	}{
		"Python":       {[]string{protocolV4}, protocolV4},
		"newer Python": {[]string{protocolV5, protocolV4}, protocolV5},
		"JavaScript":   {[]string{protocolV4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"}, protocolV4},
		"v5 last":      {[]string{protocolV4, protocolV5}, protocolV5},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveExec(t, Config{}, func(p *process) int {
				_, _ = io.CopyN(p.stdout, p.stdin, 5)
				return 7
			})
			client := dialChannels(t, server, "stdin&stdout&stderr", test.offered...)
			if got := client.Subprotocol(); got != test.spoken {
				t.Errorf("it speaks %s", got)
			}
			if err := client.WriteMessage(websocket.TextMessage, []byte("\x00he")); err != nil {
				t.Fatal(err)
			}
			client.send(t, 0, "llo")
			got := ""
			for len(got) < 5 {
				got += client.read(t, 1)
			}
			var status metav1.Status
			if err := json.Unmarshal([]byte(client.read(t, 3)), &status); err != nil || got != "hello" || status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Message != "7" {
				t.Errorf("got %q and %+v, %v", got, status, err)
			}
			client.end(t)
			if r := server.result(t); r.End != EndExited {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A message that is too large ends the session, and its client is told why.
func TestExecMessageTooLarge(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := serveExec(t, Config{}, func(p *process) int {
		_, _ = io.Copy(io.Discard, p.stdin)
		return 0
	})
	client := dialChannels(t, server, "stdin&stdout", "v5.channel.k8s.io")
	client.endless(t, 0)
	if got := client.read(t, 3); !strings.Contains(got, "32 MiB") {
		t.Errorf("got %q", got)
	}
	client.end(t)
	if r := server.result(t); r.End != EndFailed || !errors.Is(r.Err, errTooLarge) {
		t.Errorf("got %+v", r)
	}
}
