// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// command is one that says what it is given, and ends with its input.
type command struct {
	input *io.PipeReader
	stdin *io.PipeWriter
	// size is that of the terminal.
	size chan string
}

func newCommand() *command {
	c := &command{size: make(chan string, 10)}
	c.input, c.stdin = io.Pipe()
	return c
}

func (c *command) Stdin() io.WriteCloser { return c.stdin }
func (c *command) Stdout() io.Reader     { return c.input }
func (c *command) Stderr() io.Reader     { return strings.NewReader("") }
func (c *command) Close() error          { return c.input.Close() }
func (c *command) Wait() (int, error)    { return 3, nil }

func (c *command) Resize(columns, rows uint16) error {
	c.size <- strconv.Itoa(int(columns)) + "x" + strconv.Itoa(int(rows))
	return nil
}

// serveLive serves a session of jane, over the network. The result is its address, and its
// audit log once it has ended.
func serveLive(t *testing.T, connecter rest.Connecter, subresource string, options runtime.Object) (*restclient.Config, *url.URL, <-chan map[string]string) {
	t.Helper()
	ended := make(chan map[string]string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := audit.WithAuditContext(r.Context())
		audit.WithAuditID(ctx, "audit-1")
		ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
			IsResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, Namespace: "default", Resource: "windowsinstances", Subresource: subresource, Name: "win-1",
		})
		ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "jane"})
		// The generic code tells Connect the namespace, and the handler has the request as it came.
		handler, err := connecter.Connect(genericapirequest.WithNamespace(ctx, "default"), "win-1", options, &answers{})
		if err != nil {
			t.Error(err)
			return
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
		ended <- audit.AuditContextFrom(ctx).GetEventAnnotations()
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &restclient.Config{Host: server.URL}, u, ended
}

func within[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited for %s", what)
	}
	panic("not reached")
}

// checkEvents wants that a session was told of with who, what and where, and how it ended.
func (h *hosts) checkEvents(t *testing.T, want SessionInfo, end stream.Result) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.started) != 1 || len(h.ended) != 1 {
		t.Fatalf("started %v, ended %v", h.started, h.ended)
	}
	got, ended := h.started[0], h.ended[0]
	if got.Instance == nil || got.Instance.Name != "win-1" || time.Since(got.Start) > time.Minute || ended.Duration <= 0 || ended.Duration > time.Minute {
		t.Errorf("got %+v, %+v", got, ended)
	}
	want.User, want.AuditID = "jane", "audit-1"
	got.Instance, got.Start = nil, time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(end, ended.Result); diff != "" {
		t.Errorf("its end (-want +got)\n%s", diff)
	}
}

// A session is what was asked for, and it is known afterwards: in events, in the audit log
// and in its recording.
func TestExec(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
	s.asked.decision = authorizer.DecisionAllow
	s.hosts.command = newCommand()
	config, u, ended := serveLive(t, s.Exec, "exec", &windows.WindowsInstanceExecOptions{Command: []string{"cmd", "/c"}, Stdin: true, Stdout: true, TTY: true})
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello\xc3"), Stdout: &stdout, Tty: true})
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || stdout.String() != "hello\xc3" {
		t.Errorf("got %q, %v", stdout.String(), err)
	}
	annotations := within(t, ended, "the end of the session")
	wanted := stream.ExecOptions{Command: []string{"cmd", "/c"}, Stdin: true, Stdout: true, TTY: true}
	if diff := cmp.Diff([]stream.ExecOptions{wanted}, s.hosts.options); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s.hosts.checkEvents(t, SessionInfo{Kind: limits.Exec, ExecOptions: wanted}, stream.Result{End: stream.EndExited, ExitCode: 3, Received: 6, Sent: 6})
	if annotations["windows.openshift.io/session-command"] != `"cmd" "/c"` || !strings.HasPrefix(annotations["windows.openshift.io/session-end"], "end=Exited") {
		t.Errorf("the audit log has %q", annotations)
	}
	text, err := os.ReadFile(annotations["windows.openshift.io/session-recording"])
	// It is complete: half a character is all that came of the last one.
	if err != nil || !strings.Contains(string(text), "hello") || !strings.Contains(string(text), "\ufffd") || s.hosts.notRecorded > 0 {
		t.Errorf("its recording is %s, %v", text, err)
	}
	if s.tracked.Load() > 0 || s.streams.Open() > 0 {
		t.Error("the session is still counted")
	}
}

// TestExecThatDoesNotBegin: what never began leaves no recording.
func TestExecThatDoesNotBegin(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
	s.asked.decision = authorizer.DecisionAllow
	config, u, ended := serveLive(t, s.Exec, "exec", &windows.WindowsInstanceExecOptions{Command: []string{"cmd", "/c"}, Stdout: true})
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err == nil || len(s.hosts.opened) != 1 {
		t.Errorf("got %v, opened %q", err, s.hosts.opened)
	}
	recording := within(t, ended, "the end of the session")["windows.openshift.io/session-recording"]
	if _, err := os.Stat(recording); recording == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its recording %q: %v", recording, err)
	}
}

// A port forward is connected with the ports that were asked for, and no others.
func TestPortForward(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
	s.asked.decision = authorizer.DecisionAllow
	config, u, ended := serveLive(t, s.PortForward, "portforward", &windows.WindowsInstancePortForwardOptions{Ports: []int32{3389}})
	client := dialPorts(t, config, u)
	var failure string
	for failure == "" {
		_, message, err := client.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if message[0] == 1 && len(message) > 3 { // the first message is the port
			failure = string(message[1:])
		}
	}
	if failure != "forwarding to port 3389: nothing listens" {
		t.Errorf("got %q", failure)
	}
	// The server ends the session; a client that left first would be the reason.
	for err := error(nil); err == nil; {
		_, _, err = client.ReadMessage()
	}
	annotations := within(t, ended, "the end of the session")
	if diff := cmp.Diff([]string{"win-1 port 3389"}, s.hosts.opened); diff != "" {
		t.Errorf("opened (-want +got)\n%s", diff)
	}
	if got := annotations["windows.openshift.io/session-command"]; got != "(port forward 3389)" {
		t.Errorf("the audit log has %q", got)
	}
	if got := annotations["windows.openshift.io/session-end"]; !strings.Contains(got, "nothing listens") {
		t.Errorf("the audit log has %q", got)
	}
}

func dialPorts(t *testing.T, config *restclient.Config, u *url.URL) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"v5.channel.k8s.io"}}
	client, response, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(config.Host, "http")+u.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A server that stops ends its sessions, and does not wait for their users.
func TestSessionsEndWithTheServer(t *testing.T) {
	for _, subresource := range []string{"exec", "portforward"} {
		t.Run(subresource, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
			s.asked.decision = authorizer.DecisionAllow
			s.hosts.command = newCommand()
			var ended <-chan map[string]string
			if subresource == "exec" {
				config, u, end := serveLive(t, s.Exec, subresource, &windows.WindowsInstanceExecOptions{Stdin: true, Stdout: true, TTY: true})
				executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
				if err != nil {
					t.Fatal(err)
				}
				sizes := make(sizes, 1)
				sizes <- remotecommand.TerminalSize{Width: 100, Height: 30}
				input, keyboard := io.Pipe() // nobody types anything
				gone := make(chan error, 1)
				go func() {
					gone <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: input, Stdout: io.Discard, Tty: true, TerminalSizeQueue: sizes})
				}()
				defer func() {
					_ = keyboard.Close()
					close(sizes)
					within(t, gone, "the client")
				}()
				ended = end
				if got := within(t, s.hosts.command.size, "the size of the terminal"); got != "100x30" {
					t.Errorf("the terminal has %s", got)
				}
			} else {
				config, u, end := serveLive(t, s.PortForward, subresource, &windows.WindowsInstancePortForwardOptions{Ports: []int32{hangingPort}})
				dialPorts(t, config, u)
				ended = end
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := s.streams.Drain(ctx); err != nil {
				t.Error(err)
			}
			if got := within(t, ended, "the end of the session"); !strings.HasPrefix(got["windows.openshift.io/session-end"], "end=Drained") {
				t.Errorf("the audit log has %q", got)
			}
		})
	}
}

type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	if size, ok := <-s; ok {
		return &size
	}
	return nil
}
