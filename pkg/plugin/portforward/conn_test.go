// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package portforward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/test/output"
)

// serve serves a port of a host, one connection after the other, with the server that the
// client is for.
func serve(t *testing.T, config stream.Config, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream.ServePortForward(w, r, config, []int32{5985}, func(ctx context.Context, _ int) (stream.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
			if err != nil {
				return nil, errors.New("nobody listens")
			}
			return conn.(*net.TCPConn), nil
		})
	}))
	if handle == nil {
		_ = l.Close()
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		server.Close()
		_ = l.Close()
		conns.Wait()
	})
	return server.URL
}

// listen forwards a local port to a server until the end of the test.
func listen(t *testing.T, url string) (address string, said *output.Buffer) {
	t.Helper()
	said = &output.Buffer{}
	dial := func(ctx context.Context, _ uint16) (*Conn, error) {
		return Dial(ctx, &rest.Config{Host: url}, url+"/?ports=5985")
	}
	f, err := Listen(t.Context(), []string{"127.0.0.1"}, []Port{{0, 5985}}, dial, io.Discard, said)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("forwarding ended with %v", err)
		}
	})
	return fmt.Sprintf("127.0.0.1:%d", f.Ports()[0].Local), said
}

func connect(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// Connections are side by side, and each side of them ends when it has no more to send.
func TestForward(t *testing.T) {
	address, said := listen(t, serve(t, stream.Config{}, func(conn *net.TCPConn) {
		_, _ = io.Copy(conn, conn)
		_, _ = io.WriteString(conn, "farewell")
	}))
	conns := make([]*net.TCPConn, 20)
	for i := range conns {
		conns[i] = connect(t, address)
	}
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprintf("connection %d ", i), 20000)
			go func() {
				_, _ = io.WriteString(conn, text)
				_ = conn.CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || string(got) != text+"farewell" {
				t.Errorf("connection %d: got %d bytes, %v, want %d and the farewell", i, len(got), err, len(text))
			}
		})
	}
	all.Wait()
	if said.String() != "" {
		t.Errorf("it says %q", said.String())
	}
}

// The host ends its side first, and still hears the program here.
func TestForwardHostEndsFirst(t *testing.T) {
	heard := make(chan string, 1)
	address, said := listen(t, serve(t, stream.Config{}, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "bye")
		_ = conn.CloseWrite()
		all, _ := io.ReadAll(conn)
		heard <- string(all)
	}))
	conn := connect(t, address)
	if got, err := io.ReadAll(conn); err != nil || string(got) != "bye" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "still talking"); err != nil {
		t.Error(err)
	}
	_ = conn.CloseWrite()
	if got := <-heard; got != "still talking" {
		t.Errorf("the host heard %q", got)
	}
	if said.String() != "" {
		t.Errorf("it says %q", said.String())
	}
}

// A connection over which nothing is sent for long stays.
func TestForwardQuiet(t *testing.T) {
	config := stream.Config{KeepAlive: 250 * time.Millisecond}
	address, said := listen(t, serve(t, config, func(conn *net.TCPConn) {
		time.Sleep(12 * config.KeepAlive) //nolint:forbidigo // twice as long as a client may be silent
		_, _ = io.WriteString(conn, "still here")
	}))
	conn := connect(t, address)
	if got, err := io.ReadAll(conn); err != nil || string(got) != "still here" || said.String() != "" {
		t.Errorf("got %q, %v; it says %q", got, err, said.String())
	}
}

// What breaks off does not look like its end, and is reported with the reason.
func TestForwardBreaks(t *testing.T) {
	for _, test := range []struct {
		name   string
		handle func(*net.TCPConn)
		want   string
	}{
		{"nobody listens", nil, "forwarding to port 5985: nobody listens"},
		{"the host breaks off", func(conn *net.TCPConn) {
			_, _ = io.ReadFull(conn, make([]byte, 5))
			_ = conn.SetLinger(0)
		}, "reset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			address, said := listen(t, serve(t, stream.Config{}, test.handle))
			conn, err := net.Dial("tcp", address)
			if err == nil { // else it is broken off already
				defer conn.Close()
				_, _ = io.WriteString(conn, "hello")
				if got, err := io.ReadAll(conn); err == nil {
					t.Errorf("got %q and its end", got)
				}
			}
			for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), test.want); {
				if time.Now().After(deadline) {
					t.Fatalf("it says %q, want %q", said.String(), test.want)
				}
				time.Sleep(time.Millisecond) //nolint:forbidigo // between two looks
			}
		})
	}
}

// The program here breaks off: the host must not take it for the end of what it gets, and
// nothing is reported.
func TestForwardProgramBreaks(t *testing.T) {
	ended := make(chan error, 1)
	address, said := listen(t, serve(t, stream.Config{}, func(conn *net.TCPConn) {
		for {
			if _, err := conn.Write(make([]byte, chunkSize)); err != nil {
				ended <- err
				return
			}
		}
	}))
	conn := connect(t, address)
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetLinger(0)
	_ = conn.Close()
	<-ended
	if said.String() != "" {
		t.Errorf("it says %q", said.String())
	}
}

// speak serves a WebSocket whose server sends these bytes after the upgrade, and closes.
func speak(t testing.TB, data *[]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&gorilla.Upgrader{Subprotocols: gorilla.Subprotocols(r)}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = ws.NetConn().Write(*data)
		_ = ws.NetConn().(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, ws.NetConn())
		_ = ws.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// frame is a WebSocket frame of a server.
func frame(first byte, payload ...byte) []byte {
	return append([]byte{first, byte(len(payload))}, payload...)
}

// What a server sends is read to an end, whatever it is.
func TestConn(t *testing.T) {
	begin := append(frame(0x82, 0, 0x61, 0x17), frame(0x82, 1, 0x61, 0x17)...)
	with := func(frames ...[]byte) []byte { return append(bytes.Clone(begin), bytes.Join(frames, nil)...) }
	closed := frame(0x88, 3, 232)
	for _, test := range []struct {
		name string
		data []byte
		got  string
		want string // part of the error; empty: none
	}{
		{"nothing", nil, "", "the connection was lost"},
		{"all", with(frame(0x82, 0, 'h', 'i'), frame(0x82, 255, 0), frame(0x82, 255, 1), closed), "hi", ""},
		{"in fragments", with(frame(0x02, 0, 'h'), frame(0x80, 'i'), frame(0x82, 255, 0), closed), "hi", ""},
		{"empty messages", with(frame(0x82), frame(0x82, 0), frame(0x82, 255, 0), closed), "", ""},
		{"an error", with(frame(0x82, 1, 'n', 'o'), frame(0x82, 255, 0), frame(0x82, 255, 1), closed), "", "no"},
		{"an error after the end", with(frame(0x82, 255, 0), frame(0x82, 1, 'n', 'o'), frame(0x82, 255, 1), closed), "", "no"},
		{"an error of which no end came", with(frame(0x82, 0, 'h'), frame(0x82, 1, 'n', 'o')), "h", "no"},
		{"closed before its end", with(frame(0x82, 0, 'h'), closed), "h", "the connection was lost"},
		{"lost after its end", with(frame(0x82, 255, 0)), "", "the connection was lost"},
		{"lost in a message", with([]byte{0x82, 9, 0, 'h'}), "h", "the connection was lost"},
		{"no port", frame(0x82, 0), "", "not of the protocol"},
		{"half a port", frame(0x82, 1, 0x61), "", "not of the protocol"},
		{"the end of nothing", with(frame(0x82, 255)), "", "not of the protocol"},
		{"another channel", with(frame(0x82, 7, 'x'), frame(0x82, 255, 0), closed), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := speak(t, &test.data)
			conn, err := Dial(t.Context(), &rest.Config{Host: url}, url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got, err := io.ReadAll(conn)
			if err == nil {
				err = conn.Wait()
			}
			if string(got) != test.got || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v, want %q, %s", got, err, test.got, test.want)
			}
		})
	}
}

// A program that takes nothing for longer than the server may be silent loses nothing: only the
// time in which something is awaited counts.
func TestConnAfterPause(t *testing.T) {
	more := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&gorilla.Upgrader{Subprotocols: gorilla.Subprotocols(r)}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		_, _ = ws.NetConn().Write(append(frame(0x82, 0, 0x61, 0x17), 0x82, 5, 0, 'h', 'i'))
		<-more
		_, _ = ws.NetConn().Write(append([]byte("ho"), frame(0x82, 255, 0)...))
	}))
	t.Cleanup(server.Close)
	conn, err := Dial(t.Context(), &rest.Config{Host: server.URL}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := make([]byte, 2)
	if _, err := io.ReadFull(conn, first); err != nil {
		t.Fatal(err)
	}
	// As if that were long ago.
	if err := conn.ws.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	close(more)
	if rest, err := io.ReadAll(conn); err != nil || string(first)+string(rest) != "hiho" {
		t.Errorf("got %q and %q, %v", first, rest, err)
	}
}

func FuzzConn(f *testing.F) {
	begin := append(frame(0x82, 0, 0x61, 0x17), frame(0x82, 1, 0x61, 0x17)...)
	f.Add([]byte{})
	f.Add(append(begin, frame(0x82, 0, 'h', 'i')...))
	f.Add(append(begin, frame(0x82, 255, 0)...))
	f.Add(append(begin, frame(0x82, 1, 'n', 'o')...))
	f.Add(frame(0x82, 0))
	f.Add(frame(0x89, 'p'))
	f.Add([]byte{0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0})
	var data []byte
	url := speak(f, &data)
	f.Fuzz(func(t *testing.T, sent []byte) {
		data = sent
		conn, err := Dial(t.Context(), &rest.Config{Host: url}, url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		got, err := io.ReadAll(conn)
		if err == nil {
			err = conn.Wait()
		}
		if len(got) > len(sent) || len(conn.failure) > maxErrorSize {
			t.Errorf("got %d bytes, %d of an error, %v", len(got), len(conn.failure), err)
		}
	})
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that accepts a connection and does not answer holds nobody up for ever.
func TestDialIsLimited(t *testing.T) {
	asked := false
	config := &rest.Config{Host: "http://127.0.0.1", WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = true
			if deadline, limited := r.Context().Deadline(); !limited || time.Until(deadline) > time.Minute {
				t.Errorf("it waits until %v", deadline)
			}
			return nil, errors.New("not reached")
		})
	}}
	if _, err := Dial(t.Context(), config, config.Host); err == nil || !asked {
		t.Errorf("got %v, asked %v", err, asked)
	}
}

// Ctrl-C ends it also while a connection is being made, which cannot be broken off.
func TestServeEndsWhileDialing(t *testing.T) {
	dialing, late := make(chan struct{}), make(chan *Conn)
	dial := func(context.Context, uint16) (*Conn, error) {
		close(dialing)
		return <-late, nil
	}
	f, err := Listen(t.Context(), []string{"127.0.0.1"}, []Port{{0, 80}}, dial, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx) }()
	local := connect(t, fmt.Sprintf("127.0.0.1:%d", f.Ports()[0].Local))
	<-dialing
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the connection that is being made")
	}
	if _, err := local.Read(make([]byte, 1)); err == nil {
		t.Error("the program here was not told")
	}
	// The connection that was made too late is not left open.
	var nothing []byte
	url := speak(t, &nothing)
	conn, err := Dial(t.Context(), &rest.Config{Host: url}, url)
	if err != nil {
		t.Fatal(err)
	}
	late <- conn
	<-conn.closed
}

func TestParsePorts(t *testing.T) {
	ports, err := ParsePorts([]string{"80", "8080:80", ":443"})
	if err != nil || fmt.Sprint(ports) != "[{80 80} {8080 80} {0 443}]" {
		t.Errorf("got %v, %v", ports, err)
	}
	for _, argument := range []string{"", ":", "0", "80:0", "80:", "x:80", "1:2:3", "65536", "-1", "+1:http"} {
		if _, err := ParsePorts([]string{argument}); err == nil || !strings.Contains(err.Error(), "is no port") {
			t.Errorf("%q: got %v", argument, err)
		}
	}
}

// A port that is taken, and addresses to listen on.
func TestListen(t *testing.T) {
	dial := func(context.Context, uint16) (*Conn, error) { return nil, errors.New("not dialed here") }
	var out output.Buffer
	f, err := Listen(t.Context(), []string{"localhost"}, []Port{{0, 80}}, dial, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !strings.Contains(out.String(), fmt.Sprintf("Forwarding from 127.0.0.1:%d -> 80\n", f.Ports()[0].Local)) {
		t.Errorf("it says %q", out.String())
	}
	for _, test := range []struct {
		addresses []string
		port      Port
		want      string
	}{
		{nil, Port{0, 80}, "at least one address"},
		{[]string{"example.com"}, Port{0, 80}, "neither an IP address nor localhost"},
		{[]string{"127.0.0.1"}, Port{f.Ports()[0].Local, 80}, "in use"},
	} {
		if _, err := Listen(t.Context(), test.addresses, []Port{test.port}, dial, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.addresses, err, test.want)
		}
	}
}
