// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// dialers are the ways in which client-go forwards ports.
var dialers = []struct {
	name   string
	dialer func(t *testing.T, s *testServer, proxied bool) httpstream.Dialer
}{
	{"WebSocket tunnel", func(t *testing.T, s *testServer, proxied bool) httpstream.Dialer {
		t.Helper()
		u := s.url("")
		if proxied {
			u = s.proxied(t, "")
		}
		d, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, s.config())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}},
	{"SPDY", func(t *testing.T, s *testServer, proxied bool) httpstream.Dialer {
		t.Helper()
		u := s.url("")
		if proxied {
			u = s.proxied(t, "")
		}
		transport, upgrader, err := spdy.RoundTripperFor(s.config())
		if err != nil {
			t.Fatal(err)
		}
		return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	}},
}

func forEachDialer(t *testing.T, run func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer)) {
	t.Helper()
	t.Cleanup(func() { checkLeaks(t) })
	for _, d := range dialers {
		t.Run(d.name, func(t *testing.T) {
			run(t, func(s *testServer, proxied bool) httpstream.Dialer { return d.dialer(t, s, proxied) })
		})
	}
}

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

func servePorts(t *testing.T, c Config, h *host) *testServer {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) Result { return ServePortForward(w, r, c, h.dial) })
}

func echo(conn net.Conn) {
	_, _ = io.Copy(conn, conn)
	_ = conn.(*net.TCPConn).CloseWrite()
}

// forward starts the port forwarder of client-go. The returned function ends it.
func forward(t *testing.T, dialer httpstream.Dialer, port int) (address string, errOut *lockedBuffer, ended <-chan error, stop func()) {
	t.Helper()
	stopped, ready, out := make(chan struct{}), make(chan struct{}), &lockedBuffer{}
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stopped, ready, io.Discard, out)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-result:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), out, result, sync.OnceFunc(func() { close(stopped) })
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func connect(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// TestPortForwardBulk sends much, ends its side, and gets all of it back.
func TestPortForwardBulk(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		server := servePorts(t, Config{}, newHost(t, echo))
		address, _, ended, stop := forward(t, dialer(server, false), 5985)
		conn := connect(t, address)
		input, output := newStreamOf(bulk()), sha256.New()
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, err := io.Copy(conn, input); err != nil {
				t.Error(err)
			}
			_ = conn.CloseWrite()
		})
		n, err := io.Copy(output, conn)
		if err != nil {
			t.Error(err)
		}
		wait.Wait()
		if n != bulk() || !bytes.Equal(output.Sum(nil), input.sum.Sum(nil)) {
			t.Errorf("%d bytes came back, which differ", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if r := server.result(t); r.End != EndClientGone || r.Received != bulk() || r.Sent != bulk() || r.Connections != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestPortForwardMany(t *testing.T) {
	const many = 100
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		server := servePorts(t, Config{}, newHost(t, echo))
		address, _, _, stop := forward(t, dialer(server, false), 3389)
		conns := make([]*net.TCPConn, many)
		for i := range conns {
			conns[i] = connect(t, address)
		}
		var wait sync.WaitGroup
		for i, conn := range conns {
			wait.Go(func() {
				message := strings.Repeat(strconv.Itoa(i)+" ", 1000)
				_, _ = io.WriteString(conn, message)
				_ = conn.CloseWrite()
				if got, err := io.ReadAll(conn); err != nil || string(got) != message {
					t.Errorf("connection %d: %d bytes came back, %v", i, len(got), err)
				}
			})
		}
		wait.Wait()
		stop()
		if r := server.result(t); r.Connections != many {
			t.Errorf("got %+v", r)
		}
	})
}

// TestPortForwardRefused covers what is told on the error stream. client-go prints
// it and ends the forward.
func TestPortForwardRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		port   int
		config Config
		want   string
		end    End
	}{
		{"nobody listens", closedPort, Config{}, "forwarding to port 1: connection refused", EndClientGone},
		{"not allowed", forbiddenPort, Config{}, "forwarding to port 22: not allowed: only 5985 is", EndClientGone},
		{"idle", 5985, Config{IdleTimeout: 300 * time.Millisecond}, "nothing was sent for 300ms", EndIdle},
		{"the server stops", 5985, Config{}, "the server is shutting down", EndDrained},
	} {
		t.Run(test.name, func(t *testing.T) {
			forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
				t.Helper()
				closed, drain := make(chan struct{}), make(chan struct{})
				test.config.Drain = drain
				server := servePorts(t, test.config, newHost(t, func(conn net.Conn) {
					echo(conn)
					close(closed)
				}))
				client, _, err := dialer(server, false).Dial("portforward.k8s.io")
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				data, errs := pair(t, client, test.port, "1")
				if test.port == 5985 {
					exchange(t, data)
				}
				if test.end == EndDrained {
					close(drain)
				}
				message, err := io.ReadAll(errs)
				if err != nil || !strings.Contains(string(message), test.want) {
					t.Errorf("got %q, %v", message, err)
				}
				if rest, err := io.ReadAll(data); len(rest) > 0 || err != nil {
					t.Errorf("data: %q, %v", rest, err)
				}
				_ = client.Close()
				if r := server.result(t); r.End != test.end || r.Connections != 1 {
					t.Errorf("got %+v", r)
				}
				if test.port == 5985 {
					<-closed
				}
			})
		})
	}
}

// pair opens a connection as client-go does.
func pair(t *testing.T, client httpstream.Connection, port int, id string) (data, errs httpstream.Stream) {
	t.Helper()
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, id)
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	errs, err := client.CreateStream(header)
	if err != nil {
		t.Fatal(err)
	}
	_ = errs.Close()
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err = client.CreateStream(header)
	if err != nil {
		t.Fatal(err)
	}
	return data, errs
}

// exchange makes sure that the connection is there.
func exchange(t *testing.T, data httpstream.Stream) {
	t.Helper()
	buffer := make([]byte, 4)
	if _, err := data.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(data, buffer); err != nil || string(buffer) != "ping" {
		t.Fatalf("got %q, %v", buffer, err)
	}
}

// TestPortForwardHalfClose ends one direction and goes on with the other.
func TestPortForwardHalfClose(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		got := make(chan string, 1)
		server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) {
			// The host ends first, and still hears the client.
			_, _ = io.WriteString(conn, "bye")
			_ = conn.(*net.TCPConn).CloseWrite()
			all, _ := io.ReadAll(conn)
			got <- string(all)
		}))
		client, _, err := dialer(server, false).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		data, errs := pair(t, client, 5985, "1")
		if all, err := io.ReadAll(data); string(all) != "bye" || err != nil {
			t.Fatalf("got %q, %v", all, err)
		}
		if _, err := data.Write([]byte("still talking")); err != nil {
			t.Fatal(err)
		}
		_ = data.Close()
		if message, err := io.ReadAll(errs); len(message) > 0 || err != nil {
			t.Errorf("the error stream has %q, %v", message, err)
		}
		if s := <-got; s != "still talking" {
			t.Errorf("the host got %q", s)
		}
		_ = client.Close()
		server.result(t)
	})
}

// TestPortForwardReset has a client that drops one connection to a host which never
// stops sending, and keeps the others.
func TestPortForwardReset(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		dropped := make(chan struct{})
		server := servePorts(t, Config{}, newHost(t, func(conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, "more"); err != nil {
					close(dropped)
					return
				}
			}
		}))
		client, _, err := dialer(server, false).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		data, _ := pair(t, client, 5985, "1")
		if _, err := io.ReadFull(data, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		_ = data.Reset()
		<-dropped
		_ = client.Close()
		if r := server.result(t); r.End != EndClientGone {
			t.Errorf("got %+v", r)
		}
	})
}

// TestPortForwardLimit refuses one connection too many and takes it afterwards.
func TestPortForwardLimit(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		server := servePorts(t, Config{MaxForwards: 1}, newHost(t, echo))
		client, _, err := dialer(server, false).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		data, errs := pair(t, client, 5985, "1")
		exchange(t, data)
		_, refused := pair(t, client, 5985, "2")
		if message, _ := io.ReadAll(refused); !strings.Contains(string(message), "1 connections are open") {
			t.Errorf("got %q", message)
		}
		_ = data.Close()
		_, _ = io.ReadAll(errs)
		eventually(t, "another connection is taken", func() bool {
			data, errs := pair(t, client, 5985, strconv.FormatInt(time.Now().UnixNano(), 10))
			_ = data.Close()
			message, _ := io.ReadAll(errs)
			return len(message) == 0
		})
		_ = client.Close()
		server.result(t)
	})
}

// TestPortForwardClientGone covers clients that do not say goodbye, while the host is
// quiet, while it sends, and while it takes nothing.
func TestPortForwardClientGone(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for name, handle := range map[string]func(net.Conn){
			"quiet": func(conn net.Conn) { _, _ = io.Copy(conn, conn) },
			"busy":  func(conn net.Conn) { _, _ = io.Copy(conn, newStreamOf(1<<40)) },
		} {
			t.Run(fmt.Sprintf("%s, reset: %v", name, reset), func(t *testing.T) {
				forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
					t.Helper()
					server := servePorts(t, Config{KeepAlive: unhurried}, newHost(t, handle))
					address, _, ended, stop := forward(t, dialer(server, true), 5985)
					defer stop()
					conn := connect(t, address)
					if _, err := conn.Write([]byte("hello")); err != nil {
						t.Fatal(err)
					}
					if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
						t.Fatal(err)
					}
					server.cut.close(reset)
					if r := server.result(t); r.End != EndClientGone {
						t.Errorf("got %+v", r)
					}
					<-ended
				})
			})
		}
	}
}

// TestPortForwardCanceled ends with the request.
func TestPortForwardCanceled(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		h := newHost(t, echo)
		ctx, cancel := context.WithCancel(t.Context())
		server := serve(t, func(w http.ResponseWriter, r *http.Request) Result {
			return ServePortForward(w, r.WithContext(ctx), Config{}, h.dial)
		})
		client, _, err := dialer(server, false).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		data, _ := pair(t, client, 5985, "1")
		exchange(t, data)
		cancel()
		if r := server.result(t); r.End != EndCanceled {
			t.Errorf("got %+v", r)
		}
	})
}

// TestHalfPairs drops streams whose other one does not come.
func TestHalfPairs(t *testing.T) {
	forEachDialer(t, func(t *testing.T, dialer func(*testServer, bool) httpstream.Dialer) {
		t.Helper()
		server := servePorts(t, Config{StreamCreationTimeout: 100 * time.Millisecond}, newHost(t, echo))
		client, _, err := dialer(server, false).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		header := http.Header{}
		header.Set(corev1.PortHeader, "5985")
		header.Set(corev1.PortForwardRequestIDHeader, "1")
		header.Set(corev1.StreamType, corev1.StreamTypeError)
		errs, err := client.CreateStream(header)
		if err != nil {
			t.Fatal(err)
		}
		if message, _ := io.ReadAll(errs); !strings.Contains(string(message), "only one came") {
			t.Errorf("got %q", message)
		}
		_ = client.Close()
		server.result(t)
	})
}
