// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// program is a command on a host that does not exist.
type program func(p *process) int

// process is what a program sees.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	sizes          chan terminalSize
	killed         <-chan struct{}
}

// fakeSession runs a program in a goroutine.
type fakeSession struct {
	process
	in             *io.PipeWriter
	out, err       *io.PipeReader
	kill, finished chan struct{}
	once           sync.Once
	code           int
	lost           error
}

var errKilled = errors.New("the command was killed")

func start(run program) *fakeSession {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	s := &fakeSession{in: inW, out: outR, err: errR, kill: make(chan struct{}), finished: make(chan struct{})}
	s.process = process{stdin: inR, stdout: outW, stderr: errW, sizes: make(chan terminalSize, 100), killed: s.kill}
	go func() {
		defer close(s.finished)
		s.code = run(&s.process)
		_ = outW.Close()
		_ = errW.Close()
		_ = inR.CloseWithError(io.ErrClosedPipe)
	}()
	return s
}

func (s *fakeSession) Stdin() io.WriteCloser { return s.in }
func (s *fakeSession) Stdout() io.Reader     { return s.out }
func (s *fakeSession) Stderr() io.Reader     { return s.err }

func (s *fakeSession) Resize(columns, rows uint16) error {
	s.sizes <- terminalSize{columns, rows}
	return nil
}

func (s *fakeSession) Wait() (int, error) {
	<-s.finished
	select {
	case <-s.kill:
		return 0, errKilled
	default:
		return s.code, s.lost
	}
}

func (s *fakeSession) Close() error {
	s.once.Do(func() {
		select {
		case <-s.finished:
		default:
			close(s.kill)
		}
		_ = s.in.CloseWithError(errKilled)
		_ = s.out.Close()
		_ = s.err.Close()
	})
	return nil
}

// testServer serves one exec session or port forward after the other.
type testServer struct {
	*httptest.Server
	results chan Result
	cut     *cutter
}

// serve starts a TLS server with a handler.
func serve(t *testing.T, handler func(http.ResponseWriter, *http.Request) Result) *testServer {
	t.Helper()
	s := &testServer{results: make(chan Result, 10), cut: &cutter{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.results <- handler(w, r) }))
	t.Cleanup(s.Close)
	return s
}

// serveExec serves a session of the program with options from the query.
func serveExec(t *testing.T, c Config, run program) *testServer {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) Result {
		q := r.URL.Query()
		return ServeExec(w, r, ExecOptions{Stdin: q.Has("stdin"), Stdout: q.Has("stdout"), Stderr: q.Has("stderr"), TTY: q.Has("tty")}, c, start(run))
	})
}

// config is for client-go, with a dialer whose connections can be cut.
func (s *testServer) config() *restclient.Config {
	return &restclient.Config{Host: s.URL, TLSClientConfig: restclient.TLSClientConfig{CAData: certificatePEM(s.Server)}}
}

func (s *testServer) url(query string) *url.URL {
	u, err := url.Parse(s.URL + "/?" + query)
	if err != nil {
		panic(err)
	}
	return u
}

// proxied is the URL of the server through the cutter.
func (s *testServer) proxied(t *testing.T, query string) *url.URL {
	t.Helper()
	u := s.url(query)
	u.Host = s.cut.listen(t, u.Host)
	return u
}

// result is what the handler returned.
func (s *testServer) result(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-s.results:
		return r
	case <-time.After(time.Minute):
		t.Fatalf("the server still serves:\n%s", stacks())
		return Result{}
	}
}

// cutter is a TCP proxy that can end or freeze its connections, as networks do.
type cutter struct {
	mu    sync.Mutex
	conns []*net.TCPConn
}

func (c *cutter) listen(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		c.close(false)
		wait.Wait()
	})
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", to)
			if err != nil {
				_ = conn.Close()
				return
			}
			c.mu.Lock()
			c.conns = append(c.conns, conn.(*net.TCPConn), back.(*net.TCPConn))
			c.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
				_ = from.Close()
			}
			wait.Go(func() { pass(conn, back) })
			wait.Go(func() { pass(back, conn) })
		}
	})
	return l.Addr().String()
}

// close ends the connections, with a reset if asked to.
func (c *cutter) close(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if reset {
			_ = conn.SetLinger(0)
		}
		_ = conn.Close()
	}
	c.conns = nil
}

// protocols are the ways in which client-go runs commands.
var protocols = []struct {
	name     string
	executor func(*restclient.Config, *url.URL) (remotecommand.Executor, error)
}{
	{"WebSocket v5", func(c *restclient.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(c, "GET", u.String())
	}},
	{"WebSocket v4", func(c *restclient.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(c, "GET", u.String(), "v4.channel.k8s.io")
	}},
}

// v5 is the client of kubectl, which can end its input.
func v5(t *testing.T, s *testServer, u *url.URL) remotecommand.Executor {
	t.Helper()
	e, err := remotecommand.NewWebSocketExecutor(s.config(), http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// channelClient is a client that puts together and takes apart messages itself.
type channelClient struct{ *websocket.Conn }

// dialChannels opens a WebSocket with the protocols.
func dialChannels(t *testing.T, s *testServer, query string, protocols ...string) channelClient {
	t.Helper()
	return dialURL(t, s, s.url(query), protocols...)
}

func dialURL(t *testing.T, s *testServer, u *url.URL, protocols ...string) channelClient {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: s.Client().Transport.(*http.Transport).TLSClientConfig, Subprotocols: protocols, WriteBufferSize: 2 * chunkSize}
	conn, response, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(u.String(), "https"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	return channelClient{conn}
}

func (c channelClient) send(t *testing.T, channel byte, data string) {
	t.Helper()
	if err := c.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...)); err != nil {
		t.Fatal(err)
	}
}

// closeChannel ends a channel, as v5 can.
func (c channelClient) closeChannel(t *testing.T, channel byte) {
	t.Helper()
	c.send(t, 255, string(channel))
}

// next returns what comes next: the channel and the data.
func (c channelClient) next(t *testing.T) string {
	t.Helper()
	_, message, err := c.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", message[0], message[1:])
}

// want waits for messages, as next returns them.
func (c channelClient) want(t *testing.T, messages ...string) {
	t.Helper()
	for _, message := range messages {
		if got := c.next(t); got != message {
			t.Fatalf("got %q, want %q", got, message)
		}
	}
}

// read returns the next data on a channel.
func (c channelClient) read(t *testing.T, channel byte) string {
	t.Helper()
	for {
		_, message, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if message[0] == channel && len(message) > 1 {
			return string(message[1:])
		}
	}
}

// end waits for the end of the connection in good order.
func (c channelClient) end(t *testing.T) {
	t.Helper()
	for {
		_, _, err := c.NextReader()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// endless sends more in one message than is taken.
func (c channelClient) endless(t *testing.T, channel byte) {
	t.Helper()
	message, err := c.NextWriter(websocket.BinaryMessage)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = message.Write([]byte{channel})
	for range maxMessageSize/chunkSize + 4 {
		if _, err := message.Write(make([]byte, chunkSize)); err != nil {
			return // it was ended before
		}
	}
}

// stacks are those of all goroutines.
func stacks() string {
	buffer := make([]byte, 4<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// leaked are the goroutines of this package and of the libraries it runs.
func leaked() []string {
	var found []string
	for i, g := range strings.Split(stacks(), "\n\n") {
		if i == 0 || strings.Contains(g, "testing.tRunner") || strings.Contains(g, "testing.(*F).Fuzz") {
			continue // this one and its parents
		}
		for _, part := range []string{"pkg/stream.", "gorilla/websocket"} {
			if strings.Contains(g, part) {
				found = append(found, g)
				break
			}
		}
	}
	return found
}

// checkLeaks fails if goroutines are left once everything had time to end.
func checkLeaks(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := leaked()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // between two looks
	}
}

// within is a context for what must not take for ever.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// unhurried is a keep-alive whose sixfold is long even for a busy machine.
const unhurried = 250 * time.Millisecond
