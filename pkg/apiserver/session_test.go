// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// scriptedSessions are commands that say what they are, and keep what they are told.
type scriptedSessions struct {
	mu     sync.Mutex
	opened int
	events []string
}

func (s *scriptedSessions) OpenSession(_ context.Context, instance *v1alpha1.WindowsInstance, options stream.ExecOptions) (stream.Session, error) {
	if strings.HasPrefix(instance.Name, "unreachable") {
		return nil, apierrors.NewServiceUnavailable("Connect: connection refused")
	}
	s.mu.Lock()
	s.opened++
	s.mu.Unlock()
	return newScriptedSession(options.Command), nil
}

func (s *scriptedSessions) DialPort(context.Context, *v1alpha1.WindowsInstance, int) (stream.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, far)
	}()
	return pipe{near}, nil
}

// pipe is one end of a net.Pipe, which has no half-close.
type pipe struct{ net.Conn }

// CloseWrite implements [stream.Conn].
func (p pipe) CloseWrite() error { return p.Close() }

func (s *scriptedSessions) add(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

func (s *scriptedSessions) Started(i windowsinstance.SessionInfo) {
	s.add("started " + string(i.Kind) + " " + i.User + " " + i.Instance.Name + " " + strings.Join(i.Command, ","))
}
func (s *scriptedSessions) NotRecorded(_ windowsinstance.SessionInfo, err error) {
	s.add("not recorded: " + err.Error())
}
func (s *scriptedSessions) Ended(i windowsinstance.SessionInfo, e windowsinstance.SessionEnd) {
	s.add("ended " + i.Instance.Name + " " + e.String())
}

// has says whether there is an event with all parts.
func (s *scriptedSessions) has(parts ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.events {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(event, part)
		}
		if all {
			return true
		}
	}
	return false
}

func (s *scriptedSessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// scriptedSession is "cat", which says its name first and ends with code 7.
type scriptedSession struct {
	in       *io.PipeWriter
	out      *io.PipeReader
	finished chan struct{}
	closed   chan struct{}
	once     sync.Once
}

func newScriptedSession(command []string) *scriptedSession {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &scriptedSession{in: inW, out: outR, finished: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		defer close(s.finished)
		_, _ = io.WriteString(outW, strings.Join(command, ",")+":")
		_, _ = io.Copy(outW, inR)
		_ = outW.Close()
	}()
	return s
}

func (s *scriptedSession) Stdin() io.WriteCloser       { return s.in }
func (s *scriptedSession) Stdout() io.Reader           { return s.out }
func (s *scriptedSession) Stderr() io.Reader           { return strings.NewReader("") }
func (s *scriptedSession) Resize(uint16, uint16) error { return nil }

func (s *scriptedSession) Wait() (int, error) {
	<-s.finished
	select {
	case <-s.closed:
		return 0, errors.New("closed")
	default:
		return 7, nil
	}
}

func (s *scriptedSession) Close() error {
	s.once.Do(func() {
		select {
		case <-s.finished:
		default:
			close(s.closed)
		}
		_ = s.in.CloseWithError(io.ErrClosedPipe)
		_ = s.out.Close()
	})
	return nil
}

// auditLog keeps audit events.
type auditLog struct {
	mu     sync.Mutex
	events []*auditinternal.Event
}

func (l *auditLog) ProcessEvents(events ...*auditinternal.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.events = append(l.events, e.DeepCopy())
	}
	return true
}
func (*auditLog) Run(<-chan struct{}) error { return nil }
func (*auditLog) Shutdown()                 {}
func (*auditLog) String() string            { return "test" }

// annotations are those of the last event of a subresource of an instance.
func (l *auditLog) annotations(instance, subresource string) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.events) {
		if e.ObjectRef != nil && e.ObjectRef.Name == instance && e.ObjectRef.Subresource == subresource && e.Stage == auditinternal.StageResponseComplete {
			return e.Annotations
		}
	}
	return nil
}

// restConfig is for the streaming clients of client-go.
func (s *testServer) restConfig(name string) *restclient.Config {
	return &restclient.Config{Host: s.url, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("X-Test-User", name)
			return next.RoundTrip(r)
		})
	}}
}

func (s *testServer) sessionURL(t *testing.T, namespace, instance, subresource, query string) *url.URL {
	t.Helper()
	u, err := url.Parse(s.url + groupPath + "/namespaces/" + namespace + "/windowsinstances/" + instance + "/" + subresource + "?" + query)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// run runs a command in the name of somebody.
func (s *testServer) run(t *testing.T, user string, u *url.URL, o remotecommand.StreamOptions) error {
	t.Helper()
	executor, err := remotecommand.NewWebSocketExecutor(s.restConfig(user), http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(t.Context(), o)
}

func testExec(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("sessions")
	const name = "exec"
	mustKnow(t, client, newInstance(name, "10.0.10.1"))
	var stdout bytes.Buffer
	err := s.run(t, jane, s.sessionURL(t, "sessions", name, "exec", "command=ipconfig&command=/all+now&stdin=true&stdout=true"),
		remotecommand.StreamOptions{Stdin: strings.NewReader("secret"), Stdout: &stdout})
	var code clientexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 7 {
		t.Errorf("got %v", err)
	}
	if stdout.String() != "ipconfig,/all now:secret" {
		t.Errorf("got %q", stdout.String())
	}
	eventually(t, "the end is known", func() bool {
		return s.sessions.has("started exec sessions", jane, name, "ipconfig,/all now") && s.sessions.has("ended "+name, "end=Exited", "exitCode=7", "received=6 sent=24")
	})
	if s.sessions.has("secret") {
		t.Error("input is in an event")
	}
	eventually(t, "the end is in the audit log", func() bool {
		a := s.audits.annotations(name, "exec")
		return a["windows.openshift.io/session-command"] == `"ipconfig" "/all now"` && strings.Contains(a["windows.openshift.io/session-end"], "exitCode=7")
	})
	mustKnow(t, client, newInstance("unreachable-exec", "10.0.10.2"))
	for _, test := range []struct {
		name, instance, query string
		code                  int
		want                  string
	}{
		{"not upgraded", name, "command=a&stdout=true", http.StatusBadRequest, "WebSocket"},
		{"no stream", name, "command=a", http.StatusBadRequest, "at least one of stdin"},
		{"no query", name, "", http.StatusBadRequest, "at least one of stdin"},
		{"no instance", "nobody", "stdout=true", http.StatusNotFound, "not found"},
	} {
		before := s.sessions.count()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			a := s.do(t, method, strings.TrimPrefix(s.sessionURL(t, "sessions", test.instance, "exec", test.query).String(), s.url), "")
			if a.code != test.code || !strings.Contains(a.status(t).Message, test.want) {
				t.Errorf("%s: %d %s", test.name, a.code, a.body)
			}
		}
		if s.sessions.count() != before {
			t.Errorf("%s: the command was run", test.name)
		}
	}
	err = s.run(t, jane, s.sessionURL(t, "sessions", "unreachable-exec", "exec", "stdout=true"), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

// testSessionAuthorization asks for create whatever the method is.
func testSessionAuthorization(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("sessions"), newInstance("authz", "10.0.10.3"))
	webSocket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	for _, subresource := range []string{"exec", "portforward"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for user, want := range map[string]int{
				jane:   http.StatusBadRequest, // allowed, and then no protocol is offered
				reader: http.StatusForbidden,
				broken: http.StatusInternalServerError,
			} {
				before := s.sessions.count()
				path := strings.TrimPrefix(s.sessionURL(t, "sessions", "authz", subresource, "stdout=true").String(), s.url)
				a := s.do(t, method, path, "", append([]string{"X-Test-User", user}, webSocket...)...)
				if a.code != want {
					t.Errorf("%s %s by %s: %d %s", method, subresource, user, a.code, a.body)
				}
				if user == reader && method == http.MethodGet && !strings.Contains(a.body, `verb \"create\"`) {
					t.Errorf("the answer does not say what is missing: %s", a.body)
				}
				if s.sessions.count() != before {
					t.Errorf("%s %s by %s: the command was run", method, subresource, user)
				}
			}
		}
	}
}

func testPortForward(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("sessions"), newInstance("forward", "10.0.10.4"))
	// As the clients for other languages name several ports.
	u := s.sessionURL(t, "sessions", "forward", "portforward", "ports=3389,5985")
	conn, response, err := (&websocket.Dialer{Subprotocols: []string{"v4.channel.k8s.io"}}).DialContext(t.Context(), "ws"+strings.TrimPrefix(u.String(), "http"), http.Header{"X-Test-User": {jane}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	defer conn.Close()
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x02ping")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x00\x3d\x0d", "\x01\x3d\x0d", "\x02\x61\x17", "\x03\x61\x17", "\x02ping"} {
		if _, got, err := conn.ReadMessage(); err != nil || string(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	_ = conn.Close()
	eventually(t, "the end is known", func() bool {
		return s.sessions.has("started port forwards", "forward") && s.sessions.has("ended forward", "received=4 sent=4")
	})
	a := s.do(t, http.MethodGet, strings.TrimPrefix(s.sessionURL(t, "sessions", "forward", "portforward", "ports=3389&ports=22").String(), s.url), "")
	if status := a.status(t); a.code != http.StatusForbidden || !strings.Contains(status.Message, "port 22 is not allowed: the allowed ports are 3389, 5985, 5986, 9182, 10250") {
		t.Errorf("port 22: %d %s", a.code, a.body)
	}
	// Nothing is wrong with this request, as a client may find out without opening a session.
	a = s.do(t, http.MethodGet, strings.TrimPrefix(u.String(), s.url), "")
	if status := a.status(t); a.code != http.StatusBadRequest || status.Reason != v1alpha1.StatusReasonUpgradeRequired {
		t.Errorf("without an upgrade: %d %s", a.code, a.body)
	}
}

// testSessionLimits opens as many sessions as one user may have.
func testSessionLimits(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("sessions"), newInstance("limits", "10.0.10.5"))
	var wait sync.WaitGroup
	var typing []*io.PipeWriter
	for range 2 {
		in, w := io.Pipe()
		typing = append(typing, w)
		ready := make(chan struct{})
		var once sync.Once
		wait.Go(func() {
			_ = s.run(t, admin, s.sessionURL(t, "sessions", "limits", "exec", "stdin=true&stdout=true"), remotecommand.StreamOptions{
				Stdin: in, Stdout: writerFunc(func(p []byte) (int, error) {
					once.Do(func() { close(ready) })
					return len(p), nil
				}),
			})
		})
		<-ready
	}
	err := s.run(t, admin, s.sessionURL(t, "sessions", "limits", "exec", "stdout=true"), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "at most 2 exec sessions of one user may be open") {
		t.Errorf("the third: %v", err)
	}
	for _, w := range typing {
		_ = w.Close()
	}
	wait.Wait()
}

// sessionThatWaits opens a session in which nothing happens, and returns what its client is
// told at the end.
func (s *testServer) sessionThatWaits(t *testing.T, namespace, instance string) <-chan error {
	t.Helper()
	in, typing := io.Pipe()
	t.Cleanup(func() { _ = typing.Close() })
	ready, result := make(chan struct{}), make(chan error, 1)
	u := s.sessionURL(t, namespace, instance, "exec", "stdin=true&stdout=true")
	go func() {
		result <- s.run(t, jane, u, remotecommand.StreamOptions{Stdin: in, Stdout: writerFunc(func(b []byte) (int, error) {
			close(ready)
			return len(b), nil
		})})
	}()
	<-ready
	return result
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func testSessionRecording(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("sessions"), newInstance("recorded", "10.0.10.6"))
	_ = s.run(t, jane, s.sessionURL(t, "sessions", "recorded", "exec", "command=whoami&stdout=true"), remotecommand.StreamOptions{Stdout: io.Discard})
	eventually(t, "the session is over", func() bool { return s.sessions.has("ended recorded") })
	files, err := filepath.Glob(filepath.Join(s.config.Extra.Recording.Directory, "*_sessions_recorded_*.cast"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(content), `"whoami:"]`) {
		t.Errorf("got %s, %v", content, err)
	}
	// The event of the audit log comes after the end of the request.
	eventually(t, "the audit log names the recording", func() bool {
		return s.audits.annotations("recorded", "exec")["windows.openshift.io/session-recording"] == files[0]
	})
}
