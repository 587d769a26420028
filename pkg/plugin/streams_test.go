// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/test/output"
)

// echo is a program that repeats its input, says something on its error stream, and
// ends with a code.
type echo struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	errOut io.Reader
	code   int
}

func newEcho(code int) *echo {
	out, in := io.Pipe()
	return &echo{in, out, strings.NewReader("warned\n"), code}
}

func (e *echo) Stdin() io.WriteCloser       { return e.in }
func (e *echo) Stdout() io.Reader           { return e.out }
func (e *echo) Stderr() io.Reader           { return e.errOut }
func (e *echo) Resize(uint16, uint16) error { return nil }
func (e *echo) Wait() (int, error)          { return e.code, nil }
func (e *echo) Close() error                { return errors.Join(e.in.Close(), e.out.Close()) }

// serveExec makes a server run [echo].
func (a *api) serveExec(code int) {
	a.handle(http.MethodGet, "exec", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		session := newEcho(code)
		if q.Get("stdin") == "" {
			session.in.Close()
		}
		stream.ServeExec(w, r, stream.ExecOptions{
			Stdin: q.Get("stdin") == "true", Stdout: q.Get("stdout") == "true", Stderr: q.Get("stderr") == "true",
		}, stream.Config{}, session)
	})
}

func TestExec(t *testing.T) {
	for _, tc := range []struct {
		name     string
		exit     int
		stdin    string
		args     []string
		code     int
		out, err string
		query    string
	}{
		{name: "input and output", stdin: "hello\n", args: []string{"exec", "w1", "-i", "--", "findstr", "/c:a b", ""}, out: "hello\n", err: "warned\n",
			query: "command=findstr&command=%2Fc%3Aa+b&command=&stderr=true&stdin=true&stdout=true"},
		{name: "exit code", exit: 42, args: []string{"exec", "w1", "--", "x"}, code: 42, err: "warned\nerror: the program ended with exit code 42\n"},
		{name: "exit code of a crash", exit: -1073741819, args: []string{"exec", "w1", "--", "x"}, code: 255, err: "warned\nerror: the program ended with exit code 255, or with one that has more than eight bits, as after a crash\n"},
		{name: "quiet", exit: 42, args: []string{"exec", "w1", "-q", "--", "x"}, code: 42, err: "warned\n"},
		{name: "no terminal here", stdin: "exit\n", args: []string{"exec", "w1", "-it", "--", "cmd"}, out: "exit\n", err: "no terminal is used: the input is not one\nwarned\n"},
		{name: "shell", stdin: "exit\n", exit: 5, args: []string{"shell", "w1"}, out: "exit\n", code: 5, query: "stderr=true&stdin=true&stdout=true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", ""))
			a.serveExec(tc.exit)
			got := a.runIn(t.Context(), "hosts", tc.stdin, tc.args...)
			got.want(t, tc.code)
			if got.stdout != tc.out || tc.err != "" && got.stderr != tc.err {
				t.Errorf("got %q and %q, want %q and %q", got.stdout, got.stderr, tc.out, tc.err)
			}
			if requests := a.asked("/exec"); tc.query != "" && !strings.HasSuffix(requests[0], "?"+tc.query) {
				t.Errorf("request %s, want %s", requests[0], tc.query)
			}
		})
	}
}

func TestExecRefused(t *testing.T) {
	a := newAPI(t, inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"))
	a.handle(http.MethodGet, "exec", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "w1", "the host cannot be reached")
	})
	a.run("exec", "w1", "--", "x").want(t, 1, "Error from server (ServiceUnavailable): the host cannot be reached")
	a.run("exec", "w1", "x").want(t, 1, "after two dashes")
	a.run("exec", "w1", "--").want(t, 1, "after two dashes")
	a.run("exec", "w1", "w2", "--", "x").want(t, 1, "name one host")
	a.run("exec", "--pool=a", "-i", "--", "x").want(t, 1, "one host")
	a.serveExec(7)
	a.run("exec", "--pool=a", "--", "x").want(t, 7, "[w1] warned", "[w2] warned")
}

// pipe is one end of a net.Pipe, which has no half-close.
type pipe struct{ net.Conn }

// CloseWrite implements [stream.Conn].
func (p pipe) CloseWrite() error { return p.Close() }

// serveForward makes a server forward to a service that greets. Nothing listens on port 5986,
// and the server allows no port 25.
func (a *api) serveForward() {
	a.handle(http.MethodGet, "portforward", func(w http.ResponseWriter, r *http.Request) {
		var ports []int32
		for _, text := range r.URL.Query()["ports"] {
			port, err := strconv.Atoi(text)
			if err != nil || port == 25 {
				refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "w1", "port 25 may not be forwarded to; allowed are 3389, 5985")
				return
			}
			ports = append(ports, int32(port))
		}
		stream.ServePortForward(w, r, stream.Config{}, ports, func(_ context.Context, port int) (stream.Conn, error) {
			if port == 5986 {
				return nil, errors.New("nothing on the host accepts connections there")
			}
			here, there := net.Pipe()
			go func() {
				fmt.Fprintf(there, "port %d", port)
				there.Close()
			}()
			return pipe{here}, nil
		})
	})
}

// greeting connects and reads to the end.
func greeting(t *testing.T, address string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPortForward(t *testing.T) {
	a := newAPI(t, instance("w1", ""))
	a.serveForward()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, a.args("hosts", "port-forward", "w1", "--address=127.0.0.1", ":5985", ":5986"))
	}()
	listens := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> 5985\nForwarding from (127\.0\.0\.1:\d+) -> 5986`)
	eventually(t, "it listens", func() bool { return listens.MatchString(out.String()) })
	addresses := listens.FindStringSubmatch(out.String())[1:]
	// The failure of a connection is told, and is no end of the others.
	for range 2 {
		if conn, err := net.Dial("tcp", addresses[1]); err == nil {
			_, err = conn.Read(make([]byte, 1))
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("a connection that is refused ended with %v", err)
			}
			conn.Close()
		}
		if got := greeting(t, addresses[0]); got != "port 5985" {
			t.Errorf("got %q", got)
		}
	}
	const refusal = "A connection to port 5986 failed: forwarding to port 5986: nothing on the host accepts connections there\n"
	eventually(t, "the failures are told", func() bool { return strings.Count(out.String(), refusal) == 2 })
	cancel()
	if code := <-done; code != ExitInterrupted {
		t.Errorf("exit code %d, want %d:\n%s", code, ExitInterrupted, out.String())
	}
	if got := a.asked("/portforward"); !strings.HasSuffix(got[0], "?ports=5985&ports=5986") {
		t.Errorf("requests: %v", got)
	}
	a.run("port-forward", "w1", "25").want(t, 1, "port 25 may not be forwarded to; allowed are 3389, 5985")
	a.run("port-forward", "w1", "0").want(t, 1, `"0" is no port`)
	a.run("port-forward", "w1", "1:http").want(t, 1, `"1:http" is no port`)
	a.run("port-forward", "w1").want(t, 1, "requires at least 2 arg(s)")
}

func TestRDP(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for the client is a shell script")
	}
	bin := t.TempDir()
	script := "#!/bin/sh\necho client \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "xfreerdp"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, instance("w1", ""))
	a.serveForward()
	t.Setenv("PATH", bin)
	got := a.run("rdp", "w1")
	got.want(t, 0)
	if !regexp.MustCompile(`^client /v:127\.0\.0\.1:\d+ /u:Administrator\n$`).MatchString(got.stdout) {
		t.Errorf("got %q", got.stdout)
	}

	t.Setenv("PATH", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, a.args("hosts", "rdp", "w1", "--user=anna"))
	}()
	says := regexp.MustCompile(`Connect a client for Remote Desktop to (\S+) as anna`)
	eventually(t, "it says where to connect to", func() bool { return says.MatchString(out.String()) })
	if got := greeting(t, says.FindStringSubmatch(out.String())[1]); got != "port 3389" {
		t.Errorf("got %q", got)
	}
	cancel()
	if code := <-done; code != ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, ExitInterrupted)
	}
}

func TestRDPClient(t *testing.T) {
	has := func(programs ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			if slices.Contains(programs, name) {
				return "/bin/" + name, nil
			}
			return "", os.ErrNotExist
		}
	}
	for _, tc := range []struct {
		name, goos string
		programs   []string
		want       string
	}{
		{"Windows", "windows", []string{"mstsc", "xfreerdp"}, "/bin/mstsc"},
		{"Linux", "linux", []string{"xfreerdp", "mstsc"}, "/bin/xfreerdp"},
		{"newer FreeRDP", "linux", []string{"xfreerdp", "xfreerdp3"}, "/bin/xfreerdp3"},
		{"macOS", "darwin", []string{"open"}, "/bin/open"},
		{"none", "linux", []string{"open"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if c := rdpClient(tc.goos, has(tc.programs...)); c != nil {
				got = c.name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	want := "full address:s:127.0.0.1:1\r\nprompt for credentials:i:1\r\nusername:s:anna\r\n"
	if got := rdpSettings("127.0.0.1:1", "anna"); got != want {
		t.Errorf("settings %q, want %q", got, want)
	}
}
