// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// upgraded opens a connection, sends the head of a request, and returns it after the
// head of the response.
func upgraded(t testing.TB, address string, header map[string]string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	fmt.Fprintf(&head, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n")
	for k, v := range header {
		fmt.Fprintf(&head, "%s: %s\r\n", k, v)
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response.Status)
	}
	return conn.(*net.TCPConn), reader
}

func webSocketHeader(protocol string) map[string]string {
	return map[string]string{
		"Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": protocol,
	}
}

// feed sends bytes after an upgrade and ends the connection. The server must return
// whatever they are.
func feed(t *testing.T, server *httptest.Server, results <-chan Result, header map[string]string, data []byte) {
	t.Helper()
	conn, reader := upgraded(t, server.Listener.Addr().String(), header)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, reader)
	}()
	_, _ = conn.Write(data)
	_ = conn.CloseWrite()
	select {
	case <-results:
	case <-time.After(20 * time.Second):
		t.Fatalf("the server still serves:\n%s", stacks())
	}
	_ = conn.Close()
	<-drained
}

// fuzzServer serves without TLS, which would only hide the bytes.
func fuzzServer(f *testing.F, handler func(http.ResponseWriter, *http.Request) Result) (*httptest.Server, <-chan Result) {
	f.Helper()
	results := make(chan Result, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { results <- handler(w, r) }))
	f.Cleanup(func() {
		server.Close()
		left := leaked()
		for deadline := time.Now().Add(20 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = leaked() {
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // between two looks
		}
		if len(left) > 0 {
			f.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
	return server, results
}

// frame is a WebSocket frame of a client with a mask of zeros.
func frame(first byte, payload ...byte) []byte {
	head := []byte{first, 0x80 | byte(len(payload))}
	if len(payload) > 125 {
		head = []byte{first, 0x80 | 126, byte(len(payload) >> 8), byte(len(payload))}
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

func FuzzWebSocketExec(f *testing.F) {
	f.Add([]byte{})
	f.Add(frame(0x82, 0, 'h', 'i'))                                      // input
	f.Add(append(frame(0x82, 0, 'h', 'i'), frame(0x82, 255, 0)...))      // and its end
	f.Add(frame(0x82, []byte("\x04{\"Width\":80,\"Height\":25}{}}")...)) // a size and rubbish
	f.Add(frame(0x82, 255))                                              // the end of nothing
	f.Add(frame(0x82, 255, 9))
	f.Add(frame(0x82))                                 // an empty message
	f.Add(frame(0x81, 0xff, 0xfe))                     // text
	f.Add(frame(0x89, bytes.Repeat([]byte{1}, 60)...)) // a ping
	f.Add(frame(0x88, 3, 232))                         // a close
	f.Add(frame(0x02, 0, 'a'))                         // a first fragment
	f.Add([]byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	server, results := fuzzServer(f, func(w http.ResponseWriter, r *http.Request) Result {
		return ServeExec(w, r, ExecOptions{Stdin: true, Stdout: true, TTY: true}, Config{Linger: 100 * time.Millisecond}, start(func(p *process) int {
			_, _ = io.Copy(p.stdout, p.stdin)
			return 0
		}))
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		feed(t, server, results, webSocketHeader(protocolV5), data)
	})
}

func FuzzWebSocketPortForward(f *testing.F) {
	f.Add(true, []byte{})
	f.Add(false, frame(0x82, 0, 'h', 'i'))                                // to the first port
	f.Add(true, append(frame(0x82, 2, 'h', 'i'), frame(0x82, 255, 2)...)) // to the second one, and its end
	f.Add(true, append(frame(0x82, 255, 0), frame(0x82, 0, 'l')...))      // after the end
	f.Add(true, append(frame(0x82, 255, 0), frame(0x82, 255, 2)...))      // both ends
	f.Add(true, frame(0x82, 1, 'e'))                                      // on an error channel
	f.Add(true, frame(0x82, 255, 1))                                      // the end of an error channel
	f.Add(true, frame(0x82, 255))                                         // the end of nothing
	f.Add(true, frame(0x82, 255, 255))                                    // and of itself
	f.Add(false, frame(0x82, 255, 0))                                     // which v4 does not know
	f.Add(true, frame(0x82, 9, 'x'))                                      // no channel
	f.Add(true, frame(0x82))                                              // an empty message
	f.Add(true, frame(0x81, 0, 0xff))                                     // text
	f.Add(true, frame(0x88, 3, 232))                                      // a close
	f.Add(true, append(frame(0x02, 0, 'a'), frame(0x80, 'b')...))         // fragments
	f.Add(true, append(frame(0x02, 255), frame(0x80, 0)...))              // an end in fragments
	f.Add(true, []byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 'x'})
	server, results := fuzzServer(f, func(w http.ResponseWriter, r *http.Request) Result {
		return ServePortForward(w, r, Config{Linger: 100 * time.Millisecond}, []int32{5985, 3389}, pipeEcho)
	})
	f.Fuzz(func(t *testing.T, closing bool, data []byte) {
		protocol := protocolV4
		if closing {
			protocol = protocolV5
		}
		feed(t, server, results, webSocketHeader(protocol), data)
	})
}

// pipeEcho dials a connection that sends back what it gets.
func pipeEcho(context.Context, int) (Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, far)
	}()
	return pipe{near}, nil
}

// pipe is one end of a net.Pipe, which has no half-close.
type pipe struct{ net.Conn }

// CloseWrite implements [Conn].
func (p pipe) CloseWrite() error { return p.Close() }

// TestVanishedClient has clients whose network is gone: the connection stands, and
// nothing comes.
func TestVanishedClient(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	c := Config{KeepAlive: 20 * time.Millisecond}
	waits := func(p *process) int { <-p.killed; return 0 }
	for _, test := range []struct {
		name    string
		handler func(http.ResponseWriter, *http.Request) Result
	}{
		{"exec", func(w http.ResponseWriter, r *http.Request) Result {
			return ServeExec(w, r, ExecOptions{Stdin: true}, c, start(waits))
		}},
		{"port forward", func(w http.ResponseWriter, r *http.Request) Result {
			return ServePortForward(w, r, c, []int32{5985}, pipeEcho)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			results := make(chan Result, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { results <- test.handler(w, r) }))
			defer server.Close()
			conn, _ := upgraded(t, server.Listener.Addr().String(), webSocketHeader(protocolV5))
			defer conn.Close()
			if r := <-results; r.End != EndClientGone {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestStalledClientGetsPongs covers a command that does not take its input: the
// client's pings are not read then, and client-go gives up without a pong.
func TestStalledClientGetsPongs(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := serveExec(t, Config{KeepAlive: unhurried}, func(p *process) int { <-p.killed; return 0 })
	conn := dialChannels(t, server, "stdin", protocolV5)
	pong := make(chan struct{}, 1)
	conn.SetPongHandler(func(string) error {
		select {
		case pong <- struct{}{}:
		default:
		}
		return nil
	})
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
		}
	}()
	for range 2 { // the first message waits for the command, the second behind it
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x00input")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-pong:
	case <-time.After(time.Minute):
		t.Error("no pong came")
	}
	_ = conn.Close()
	<-read
	if r := server.result(t); r.End != EndClientGone {
		t.Errorf("got %+v", r)
	}
}
