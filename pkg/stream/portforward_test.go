// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// host listens on a loopback port in place of every port of a host.
type host struct {
	address string
	conns   sync.WaitGroup
}

func newHost(t *testing.T, handle func(net.Conn)) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{address: l.Addr().String()}
	var accept sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		accept.Wait()
		h.conns.Wait()
	})
	accept.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.conns.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	return h
}

// closedPort is one on which nothing listens, and forbiddenPort one not allowed.
const (
	closedPort    = 1
	forbiddenPort = 22
)

func (h *host) dial(ctx context.Context, port int) (Conn, error) {
	switch port {
	case closedPort:
		return nil, errors.New("connection refused")
	case forbiddenPort:
		return nil, errors.New("not allowed: only 5985 is")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func servePorts(t *testing.T, c Config, h *host, ports ...int32) *testServer {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) Result { return ServePortForward(w, r, c, ports, h.dial) })
}

func echo(conn net.Conn) {
	_, _ = io.Copy(conn, conn)
	_ = conn.(*net.TCPConn).CloseWrite()
}

// The names of the protocols, and the port 5985 as the first message on a channel has it.
const (
	protocolV4 = "v4.channel.k8s.io"
	protocolV5 = "v5.channel.k8s.io"
	port5985   = "\x61\x17"
)

// TestPortForwardBulk sends much, ends its side, and gets all of it back.
func TestPortForwardBulk(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := servePorts(t, Config{}, newHost(t, echo), 5985)
	client := dialChannels(t, server, "", protocolV5)
	client.want(t, "0 "+port5985, "1 "+port5985)
	input, output := newStreamOf(bulk()), sha256.New()
	var wait sync.WaitGroup
	wait.Go(func() {
		buffer := make([]byte, chunkSize+1)
		for input.left > 0 {
			n, _ := input.Read(buffer[1:])
			if err := client.WriteMessage(websocket.BinaryMessage, buffer[:n+1]); err != nil {
				t.Error(err)
				return
			}
		}
		client.closeChannel(t, 0)
	})
	var n int64
	for {
		_, message, err := client.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if message[0] == 255 {
			break
		}
		n += int64(len(message)) - 1
		output.Write(message[1:])
	}
	wait.Wait()
	if n != bulk() || !bytes.Equal(output.Sum(nil), input.sum.Sum(nil)) {
		t.Errorf("%d bytes came back, which differ", n)
	}
	client.want(t, "255 \x01")
	client.end(t)
	if r := server.result(t); r.End != EndClosed || r.Received != bulk() || r.Sent != bulk() {
		t.Errorf("got %+v", r)
	}
}

// A chunk goes out as one frame, and so does not cost a second packet and system call.
func TestPortForwardChunkIsOneFrame(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := servePorts(t, Config{KeepAlive: time.Hour}, newHost(t, echo), 5985)
	client := dialChannels(t, server, "", protocolV5)
	client.want(t, "0 "+port5985, "1 "+port5985)
	go func() {
		_ = client.WriteMessage(websocket.BinaryMessage, make([]byte, 1+2*chunkSize))
	}()
	raw := client.NetConn()
	for received := 0; received < 2*chunkSize; {
		head := make([]byte, 2, 4)
		if _, err := io.ReadFull(raw, head); err != nil {
			t.Fatal(err)
		}
		if head[0] != 0x82 { // FIN, binary
			t.Fatalf("a frame begins with %#x after %d bytes", head[0], received)
		}
		size := int(head[1])
		if size == 126 {
			if _, err := io.ReadFull(raw, head[2:4]); err != nil {
				t.Fatal(err)
			}
			size = int(binary.BigEndian.Uint16(head[2:4]))
		}
		if _, err := io.CopyN(io.Discard, raw, int64(size)); err != nil {
			t.Fatal(err)
		}
		received += size - 1
	}
	_ = raw.Close()
	server.result(t)
}

// TestPortForwardHalfClose ends one direction and goes on with the other.
func TestPortForwardHalfClose(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	got := make(chan string, 1)
	t.Run("the host ends first", func(t *testing.T) {
		server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "bye")
			_ = conn.(*net.TCPConn).CloseWrite()
			all, _ := io.ReadAll(conn)
			got <- string(all)
		}), 5985)
		client := dialChannels(t, server, "", protocolV5)
		client.want(t, "0 "+port5985, "1 "+port5985, "0 bye", "255 \x00")
		client.send(t, 0, "still ")
		client.send(t, 0, "talking")
		client.closeChannel(t, 0)
		client.want(t, "255 \x01")
		client.end(t)
		if s := <-got; s != "still talking" {
			t.Errorf("the host got %q", s)
		}
		server.result(t)
	})
	t.Run("the client ends first", func(t *testing.T) {
		server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) {
			all, _ := io.ReadAll(conn)
			_, _ = io.WriteString(conn, "got "+string(all))
		}), 5985)
		client := dialChannels(t, server, "", protocolV5)
		client.send(t, 0, "a question")
		client.closeChannel(t, 0)
		client.want(t, "0 "+port5985, "1 "+port5985, "0 got a question", "255 \x00", "255 \x01")
		client.end(t)
		if r := server.result(t); r.End != EndClosed || r.Received != 10 || r.Sent != 14 {
			t.Errorf("got %+v", r)
		}
	})
}

// TestPortForwardOthers does what the clients for Python and JavaScript do: they offer
// several protocols, want the port in a first message of three bytes on each channel, know
// no message on channel 255, and close the connection when they have no more to send. For
// Python there may be several ports. The clients themselves are not on every machine that
// runs the tests.
func TestPortForwardOthers(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	for name, protocols := range map[string][]string{
		"Python":         {protocolV4},
		"newer Python":   {protocolV5, protocolV4},
		"JavaScript":     {protocolV4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"},
		"another offers": {"v9.channel.k8s.io", protocolV5, protocolV4},
	} {
		t.Run(name, func(t *testing.T) {
			dropped := make(chan string, 1)
			server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "hello")
				all, _ := io.ReadAll(conn)
				dropped <- string(all)
			}), closedPort, 5985)
			client := dialChannels(t, server, "", protocols...)
			if got := client.Subprotocol(); got != protocolV4 {
				t.Fatalf("it speaks %s", got)
			}
			client.want(t, "0 \x01\x00", "1 \x01\x00", "2 "+port5985, "3 "+port5985)
			// In which order the ports answer is not known.
			answers := []string{client.next(t), client.next(t)}
			if answers[0] != "2 hello" {
				answers[0], answers[1] = answers[1], answers[0]
			}
			if answers[0] != "2 hello" || answers[1] != "1 forwarding to port 1: connection refused" {
				t.Errorf("got %q", answers)
			}
			if err := client.WriteMessage(websocket.TextMessage, []byte("\x02text")); err != nil {
				t.Fatal(err)
			}
			client.send(t, 2, "\x00binary")
			_ = client.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Time{})
			if got := <-dropped; got != "text\x00binary" {
				t.Errorf("the host got %q", got)
			}
			if r := server.result(t); r.End != EndClientGone {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// slowHost takes what it is sent when it has sent something itself.
type slowHost struct {
	writing, talk, talked, take, closed chan struct{}
	once                                sync.Once
	sent                                bool
	got                                 chan string
}

func (h *slowHost) Read(p []byte) (int, error) {
	if !h.sent {
		<-h.talk
		h.sent = true
		return copy(p, "x"), nil
	}
	h.talked <- struct{}{}
	<-h.closed
	return 0, net.ErrClosed
}

func (h *slowHost) Write(p []byte) (int, error) {
	close(h.writing)
	select {
	case <-h.closed:
		return 0, net.ErrClosed
	case <-h.take:
		h.got <- string(p)
		return len(p), nil
	}
}

func (*slowHost) CloseWrite() error { return nil }

func (h *slowHost) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// What a client has sent before it closed the connection is delivered, also to a host that sends
// meanwhile what nobody takes any more.
func TestPortForwardClientLeaves(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	h := &slowHost{
		writing: make(chan struct{}), talk: make(chan struct{}), talked: make(chan struct{}, 1), take: make(chan struct{}), closed: make(chan struct{}),
		got: make(chan string, 1),
	}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) Result {
		return ServePortForward(w, r, Config{Linger: time.Minute}, []int32{5985}, func(context.Context, int) (Conn, error) { return h, nil })
	})
	client := dialChannels(t, server, "", protocolV4)
	client.send(t, 0, "last words")
	<-h.writing
	if err := client.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Time{}); err != nil {
		t.Fatal(err)
	}
	client.end(t)
	close(h.talk)
	select {
	case <-h.talked:
		close(h.take)
		if got := <-h.got; got != "last words" {
			t.Errorf("the host got %q", got)
		}
	case <-h.closed:
		t.Error("the connection to the host was closed before it had taken everything")
	}
	if r := server.result(t); r.End != EndClientGone {
		t.Errorf("got %+v", r)
	}
}

// A client that cannot be told that the host has ended its side is told that the connection
// is over.
func TestPortForwardHostEndsV4(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.0 200 OK") }), 5985)
	client := dialChannels(t, server, "", protocolV4)
	client.want(t, "0 "+port5985, "1 "+port5985, "0 HTTP/1.0 200 OK")
	client.end(t)
	if r := server.result(t); r.End != EndClosed || r.Sent != 15 {
		t.Errorf("got %+v", r)
	}
}

// TestPortForwardEnds covers what is told on the error channel.
func TestPortForwardEnds(t *testing.T) {
	for _, test := range []struct {
		name   string
		port   int32
		config Config
		want   string
		end    End
	}{
		{"nobody listens", closedPort, Config{}, "forwarding to port 1: connection refused", EndFailed},
		{"not allowed", forbiddenPort, Config{}, "forwarding to port 22: not allowed: only 5985 is", EndFailed},
		{"idle", 5985, Config{IdleTimeout: 3 * time.Second}, "nothing was sent for 3s", EndIdle},
		{"the server stops", 5985, Config{}, "the server is shutting down", EndDrained},
		{"a message that is too large", 5985, Config{}, "a message of more than 32 MiB", EndFailed},
		{"the request is canceled", 5985, Config{}, "the port forward is over", EndCanceled},
	} {
		for _, protocol := range []string{protocolV4, protocolV5} {
			if test.end == EndFailed && test.port == 5985 && protocol == protocolV4 {
				continue // takes long, and is no different
			}
			t.Run(test.name+" "+protocol, func(t *testing.T) {
				t.Cleanup(func() { checkLeaks(t) })
				closed, drain := make(chan struct{}), make(chan struct{})
				test.config.Drain = drain
				h := newHost(t, func(conn net.Conn) {
					_, _ = io.CopyN(conn, conn, 4)
					_, _ = io.Copy(io.Discard, conn)
					close(closed)
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				server := serve(t, func(w http.ResponseWriter, r *http.Request) Result {
					return ServePortForward(w, r.WithContext(ctx), test.config, []int32{test.port}, h.dial)
				})
				client := dialChannels(t, server, "", protocol)
				if test.port == 5985 {
					client.send(t, 0, "ping")
					client.want(t, "0 "+port5985, "1 "+port5985, "0 ping")
				} else {
					client.next(t)
					client.next(t)
				}
				switch {
				case test.end == EndDrained:
					close(drain)
				case test.end == EndCanceled:
					cancel()
				case test.end == EndFailed && test.port == 5985:
					client.endless(t, 0)
				}
				if message := client.read(t, 1); !strings.Contains(message, test.want) {
					t.Errorf("got %q", message)
				}
				if protocol == protocolV5 {
					client.want(t, "255 \x00", "255 \x01")
				}
				client.end(t)
				if r := server.result(t); r.End != test.end || r.End == EndFailed && !strings.Contains(r.Err.Error(), test.want) {
					t.Errorf("got %+v", r)
				}
				if test.port == 5985 {
					<-closed
				}
			})
		}
	}
}

// The ports are checked before anything is dialed.
func TestPortForwardPorts(t *testing.T) {
	many := make([]int32, 17)
	for i := range many {
		many[i] = 5985 + int32(i)
	}
	for _, ports := range [][]int32{nil, {0}, {-1}, {65536}, {5985, 65536 + 5985}, {5985, 9182, 5985}, many} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		for k, v := range webSocketHeader(protocolV4) {
			r.Header.Set(k, v)
		}
		if err := CheckPortForward(r, ports); err == nil || err.ErrStatus.Code != http.StatusBadRequest || !strings.Contains(err.Error(), "65535") && !strings.Contains(err.Error(), "from 1 to 16") && !strings.Contains(err.Error(), "names port 5985 more than once") {
			t.Errorf("%v: got %v", ports, err)
		}
		if err := CheckPortForward(r, []int32{1, 65535}); err != nil {
			t.Error(err)
		}
	}
}

// TestPortForwardWaits has a host that takes nothing for longer than a client may be
// silent, and one that is not connected to yet. The client waits meanwhile: nothing is buffered without a bound.
func TestPortForwardWaits(t *testing.T) {
	for _, dials := range []bool{false, true} {
		t.Run(map[bool]string{true: "for the connection", false: "for the host"}[dials], func(t *testing.T) {
			t.Cleanup(func() { checkLeaks(t) })
			const size = 768 * chunkSize
			c := Config{KeepAlive: unhurried}
			written := make(chan struct{})
			pause := time.After(2 * c.silence())
			if dials {
				pause = time.After(c.KeepAlive)
			}
			check := func() {
				select {
				case <-pause:
				case <-written:
					t.Error("all was taken from the client although the host took nothing")
				}
			}
			got := make(chan int64, 1)
			h := newHost(t, func(conn net.Conn) {
				if !dials {
					check()
				}
				n, _ := io.Copy(io.Discard, conn)
				got <- n
			})
			server := serve(t, func(w http.ResponseWriter, r *http.Request) Result {
				return ServePortForward(w, r, c, []int32{5985}, func(ctx context.Context, port int) (Conn, error) {
					if dials {
						check()
					}
					return h.dial(ctx, port)
				})
			})
			client := dialChannels(t, server, "", protocolV5)
			var writing sync.WaitGroup
			writing.Go(func() {
				defer close(written)
				for range size / chunkSize {
					client.send(t, 0, strings.Repeat("x", chunkSize))
				}
				client.closeChannel(t, 0)
			})
			client.end(t)
			writing.Wait()
			n := <-got
			if r := server.result(t); r.End != EndClosed || r.Received != size || n != size {
				t.Errorf("got %+v, the host got %d bytes", r, n)
			}
		})
	}
}

// TestPortForwardClientGone covers clients that do not say goodbye, while the host is
// quiet, while it sends, and while it takes nothing.
func TestPortForwardClientGone(t *testing.T) {
	for name, handle := range map[string]func(net.Conn){
		"quiet": func(conn net.Conn) { _, _ = io.Copy(conn, conn) },
		"busy":  func(conn net.Conn) { _, _ = io.Copy(conn, newStreamOf(1<<40)) },
		"stuck": func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 5))
			_, _ = io.Copy(conn, newStreamOf(1<<40)) // until the connection is closed
		},
	} {
		for _, reset := range []bool{false, true} {
			t.Run(map[bool]string{true: name + ", reset", false: name}[reset], func(t *testing.T) {
				t.Cleanup(func() { checkLeaks(t) })
				server := servePorts(t, Config{KeepAlive: unhurried}, newHost(t, handle), 5985)
				client := dialURL(t, server, server.proxied(t, ""), protocolV5)
				client.send(t, 0, "hello")
				client.read(t, 0)
				if name == "stuck" {
					go func() {
						for client.WriteMessage(websocket.BinaryMessage, make([]byte, chunkSize)) == nil {
						}
					}()
				}
				server.cut.close(reset)
				if r := server.result(t); r.End != EndClientGone {
					t.Errorf("got %+v", r)
				}
			})
		}
	}
}

// A failure of the host is no end of what it sends.
func TestPortForwardHostResets(t *testing.T) {
	t.Cleanup(func() { checkLeaks(t) })
	h := newHost(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 5))
		_ = conn.(*net.TCPConn).SetLinger(0)
	})
	server := servePorts(t, Config{}, h, 5985)
	client := dialChannels(t, server, "", protocolV5)
	client.send(t, 0, "hello")
	client.want(t, "0 "+port5985, "1 "+port5985)
	if message := client.next(t); !strings.HasPrefix(message, "1 forwarding to port 5985: ") || !strings.Contains(message, "reset") {
		t.Errorf("got %q", message)
	}
	client.want(t, "255 \x00", "255 \x01")
	client.end(t)
	if r := server.result(t); r.End != EndFailed {
		t.Errorf("got %+v", r)
	}
}
