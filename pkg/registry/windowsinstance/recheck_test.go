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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// pulse is a clock whose tickers tick when the test says so. A tick is taken when the work of the one before is done.
type pulse struct {
	clock.RealClock

	ticks  chan time.Time
	linger chan time.Time
}

func newPulse() *pulse { return &pulse{ticks: make(chan time.Time), linger: make(chan time.Time)} }

func (p *pulse) NewTicker(time.Duration) clock.Ticker { return ticker{p.ticks} }
func (p *pulse) After(time.Duration) <-chan time.Time { return p.linger }
func (p *pulse) tick(t *testing.T, n int)             { t.Helper(); p.send(t, p.ticks, n) }
func (p *pulse) over(t *testing.T)                    { t.Helper(); p.send(t, p.linger, 1) }
func (*pulse) send(t *testing.T, to chan time.Time, n int) {
	t.Helper()
	for range n {
		select {
		case to <- time.Time{}:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody waits for a tick")
		}
	}
}

// tickUntil ticks until something comes.
func tickUntil[T any](t *testing.T, p *pulse, from <-chan T) T {
	t.Helper()
	for patience := time.After(20 * time.Second); ; {
		select {
		case p.ticks <- time.Time{}:
		case came := <-from:
			return came
		case <-patience:
			t.Fatal("nothing came")
		}
	}
}

// changing is an authorizer that changes its mind while it may be asked.
type changing struct {
	authorizer.Authorizer // nil: nothing but Authorize is expected to be called

	decision atomic.Int64
}

func newChanging() *changing {
	c := &changing{}
	c.decide(authorizer.DecisionAllow)
	return c
}

func (c *changing) decide(d authorizer.Decision) { c.decision.Store(int64(d)) }

func (c *changing) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.Decision(c.decision.Load()), "", nil
}

type ticker struct{ c <-chan time.Time }

func (t ticker) C() <-chan time.Time { return t.c }
func (ticker) Stop()                 {}

// requestFor is the context of a request of jane, without the namespace, which the generic code adds for all but
// handlers of streams.
func requestFor(ctx context.Context, verb, subresource string) context.Context {
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIGroup: v1alpha1.GroupName, Namespace: "default", Resource: "windowsinstances", Subresource: subresource, Name: "win-1",
	})
	return genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "jane"})
}

// What was allowed when a stream began, and is not any more, ends it; that nobody can say so ends it only
// when it lasts.
func TestRechecks(t *testing.T) {
	otherKey := "AAAAC3NzaC1lZDI1NTE5AAAAIH0000000000000000000000000000000000000000000"
	keys := func(keys ...string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Status.HostKeys = nil
			for _, key := range keys {
				i.Status.HostKeys = append(i.Status.HostKeys, windows.HostKeyStatus{Type: "ssh-ed25519", Key: key})
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(s *fixture, instance *windows.WindowsInstance)
		ticks  int
		ends   string // empty: the stream goes on
	}{
		{"nothing changed", func(*fixture, *windows.WindowsInstance) {}, 20, ""},
		{"the right is gone", func(s *fixture, _ *windows.WindowsInstance) { s.asked.decision = authorizer.DecisionNoOpinion }, 1, `this needs the verb "create" on windowsinstances/exec`},
		{"the right is denied", func(s *fixture, _ *windows.WindowsInstance) { s.asked.decision = authorizer.DecisionDeny }, 1, "would be refused by now"},
		{"nobody says, for a while", func(s *fixture, _ *windows.WindowsInstance) { s.asked.err = errors.New("away") }, 5, ""},
		{"nobody says, for long", func(s *fixture, _ *windows.WindowsInstance) { s.asked.err = errors.New("away") }, 6, "nobody has said for 5m0s that it is still allowed"},
		{"etcd is away", func(s *fixture, _ *windows.WindowsInstance) { s.memory.away = errors.New("etcd is away") }, maxCached, ""},
		{"cut off from etcd", func(s *fixture, _ *windows.WindowsInstance) { s.memory.away = errors.New("etcd is away") }, maxCached + 6, "etcd is away"},
		{"deleted", func(s *fixture, _ *windows.WindowsInstance) { s.memory.objects = map[string]*windows.WindowsInstance{} }, 1, "not found"},
		{"created again", func(_ *fixture, i *windows.WindowsInstance) { i.UID = "another" }, 1, "deleted and created again"},
		{"another host represents it", func(_ *fixture, i *windows.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDuplicateHost, Message: "it is that of win-2"}}
		}, 1, "it is that of win-2"},
		{"not logged in to", func(_ *fixture, i *windows.WindowsInstance) { i.Status.MachineID = "" }, 1, "has not logged in"},
		{"another address", func(_ *fixture, i *windows.WindowsInstance) { i.Spec.Address = "win.example.com" }, 1, "another address"},
		{"another user", func(_ *fixture, i *windows.WindowsInstance) { i.Spec.Username = "somebody" }, 1, "another address, port or user"},
		{"a further key", func(_ *fixture, i *windows.WindowsInstance) { keys("AAAA", otherKey)(i) }, 3, ""},
		{"another key", func(_ *fixture, i *windows.WindowsInstance) { keys(otherKey)(i) }, 1, "a host key that was trusted is not"},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := newInstance(loggedIn, keys("AAAA"))
			s := newStorage(t, base.Deleters{}, began)
			s.asked.decision = authorizer.DecisionAllow
			again, pulse := s.Exec.rechecks, newPulse()
			again.clock = pulse
			instance, err := served(began)
			if err != nil {
				t.Fatal(err)
			}
			test.change(s, s.stored("win-1"))
			ctx, cancel := context.WithCancel(requestFor(t.Context(), "get", "exec"))
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- again.watch(ctx, nil, again.still(verbCreate, instance)) }()
			pulse.tick(t, test.ticks)
			if test.ends == "" {
				cancel()
			}
			err = within(t, ended, "the end")
			if (err == nil) != (test.ends == "") || err != nil && !strings.Contains(err.Error(), test.ends) {
				t.Errorf("got %v, want %q", err, test.ends)
			}
		})
	}
}

// Somebody who loses the right to a session loses the session, and learns why.
func TestExecIsRevoked(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
	s.asked.decision = authorizer.DecisionAllow
	pulse, asked := newPulse(), newChanging()
	*s.Exec.rechecks = rechecks{s.Instance.Store, asked, pulse}
	s.hosts.command = newCommand()
	config, u, ended := serveLive(t, s.Exec, "exec", &windows.WindowsInstanceExecOptions{Stdin: true, Stdout: true})
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	input, keyboard := io.Pipe() // nobody types anything
	defer keyboard.Close()
	told := make(chan error, 1)
	go func() {
		told <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: input, Stdout: io.Discard})
	}()
	pulse.tick(t, 3) // it is still allowed
	asked.decide(authorizer.DecisionNoOpinion)
	if err := tickUntil(t, pulse, told); err == nil || !strings.Contains(err.Error(), "it was ended because it would be refused by now") {
		t.Errorf("the client was told %v", err)
	}
	if got := within(t, ended, "the end of the session")["windows.openshift.io/session-end"]; !strings.HasPrefix(got, "end=Revoked") {
		t.Errorf("the audit log has %q", got)
	}
}

// A session that ends for want of memory says nothing about its user, and ends also while nobody answers
// whether it is allowed.
func TestRelievedSession(t *testing.T) {
	for name, blocks := range map[string]bool{"between two questions": false, "while nobody answers": true} {
		t.Run(name, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
			s.asked.decision = authorizer.DecisionAllow
			asks, opened := make(chan struct{}, 1), make(chan *relief.Stream, 1)
			s.Exec.track = func(namespace, user string) (*relief.Stream, func()) {
				stream, untrack := relief.New().Track(namespace, user)
				opened <- stream
				return stream, untrack
			}
			pulse, asked := newPulse(), authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
				asks <- struct{}{}
				<-ctx.Done()
				return authorizer.DecisionNoOpinion, "", ctx.Err()
			})
			*s.Exec.rechecks = rechecks{s.Instance.Store, asked, pulse}
			s.hosts.command = newCommand()
			config, u, ended := serveLive(t, s.Exec, "exec", &windows.WindowsInstanceExecOptions{Stdin: true, Stdout: true})
			executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
			if err != nil {
				t.Fatal(err)
			}
			input, keyboard := io.Pipe()
			defer keyboard.Close()
			told := make(chan error, 1)
			go func() {
				told <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: input, Stdout: io.Discard})
			}()
			if blocks {
				pulse.tick(t, 1)
				within(t, asks, "the question whether it is allowed")
			}
			within(t, opened, "the session").End()
			if err := within(t, told, "the end"); err == nil || !strings.Contains(err.Error(), "short of memory") {
				t.Errorf("the client was told %v", err)
			}
			if got := within(t, ended, "the end of the session")["windows.openshift.io/session-end"]; !strings.HasPrefix(got, "end=Unavailable") {
				t.Errorf("the audit log has %q", got)
			}
		})
	}
}

// The same with ports.
func TestPortForwardIsRevoked(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
	s.asked.decision = authorizer.DecisionAllow
	pulse, asked := newPulse(), newChanging()
	*s.PortForward.rechecks = rechecks{s.Instance.Store, asked, pulse}
	config, u, ended := serveLive(t, s.PortForward, "portforward", &windows.WindowsInstancePortForwardOptions{Ports: []int32{hangingPort}})
	client := dialPorts(t, config, u)
	pulse.tick(t, 1)
	asked.decide(authorizer.DecisionNoOpinion)
	annotations := tickUntil(t, pulse, ended)
	var all bytes.Buffer
	for err := error(nil); err == nil; {
		var message []byte
		_, message, err = client.ReadMessage()
		all.Write(message)
	}
	if !strings.Contains(all.String(), "forwarding to port 5986: ") || !strings.Contains(all.String(), "would be refused by now") {
		t.Errorf("the client was told %q", all.String())
	}
	if got := annotations["windows.openshift.io/session-end"]; !strings.HasPrefix(got, "end=Revoked") {
		t.Errorf("the audit log has %q", got)
	}
}

// serveLog serves a log of jane by the generic code, over HTTP/2 as behind kube-apiserver.
func serveLog(t *testing.T, r *LogREST, options *windows.WindowsInstanceLogOptions) (body io.Reader, ended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewUnstartedServer(WithCut(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		defer close(done)
		ctx := genericapirequest.WithNamespace(requestFor(request.Context(), "get", "log"), "default")
		obj, err := r.Get(ctx, "win-1", options)
		if err != nil {
			t.Error(err)
			return
		}
		responsewriters.StreamObject(http.StatusOK, schema.GroupVersion{}, nil, obj.(rest.ResourceStreamer), w, request.WithContext(ctx))
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.Body, done
}

// The last line of a follow says why it must not go on; a log that is not followed breaks off.
func TestLogIsRevoked(t *testing.T) {
	for _, test := range []struct {
		name    string
		options *windows.WindowsInstanceLogOptions
		want    string
		broken  bool
	}{
		{"text", following(), "# end: it was ended because it would be refused by now: ", false},
		{"json", &windows.WindowsInstanceLogOptions{Query: []string{"a"}, Follow: true, Output: "json"}, `{"end":"it was ended because it would be refused by now: `, false},
		{"not following", &windows.WindowsInstanceLogOptions{Query: []string{"a"}}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream, pulse := newScriptedStream(), newPulse()
			r, streams := logServer(stream, endless)
			asked := newChanging()
			r.rechecks = &rechecks{instances{}, asked, pulse}
			body, ended := serveLog(t, r, test.options)
			stream.done.Go(func() { _, _ = io.WriteString(stream.host, strings.Repeat("one\n", 16<<10)) })
			first := make([]byte, 4)
			if _, err := io.ReadFull(body, first); err != nil || string(first) != "one\n" {
				t.Fatalf("got %q, %v", first, err)
			}
			asked.decide(authorizer.DecisionDeny)
			pulse.tick(t, 1)
			rest, err := io.ReadAll(body)
			if !strings.Contains(string(rest), "\n"+test.want) || (err != nil) != test.broken || !test.broken && !strings.HasSuffix(string(rest), "\n") {
				t.Errorf("got …%q, %v", rest[max(0, len(rest)-200):], err)
			}
			within(t, ended, "the end of the request")
			eventually(t, "the stream is no longer counted", func() bool { return streams.Open() == 0 })
		})
	}
}

// Part of a log must not look like all of it.
func TestBrokenLogIsCut(t *testing.T) {
	stream := newScriptedStream()
	r, _ := logServer(stream, endless)
	body, ended := serveLog(t, r, &windows.WindowsInstanceLogOptions{Query: []string{"a"}})
	stream.done.Go(func() {
		_, _ = io.WriteString(stream.host, "one\n")
		_ = stream.host.CloseWithError(errors.New("connection lost"))
	})
	if got, err := io.ReadAll(body); err == nil {
		t.Errorf("got %q as if it was complete", got)
	}
	within(t, ended, "the end of the request")
}

// Whoever reads nothing of a log holds it for some minutes, and no longer.
func TestLogThatNobodyReads(t *testing.T) {
	stream, pulse := newScriptedStream(), newPulse()
	r, streams := logServer(stream, endless)
	r.rechecks = &rechecks{instances{}, newChanging(), pulse}
	body, ended := serveLog(t, r, following())
	stream.done.Go(func() {
		flood := bytes.Repeat([]byte("one more line\n"), 4<<10)
		for {
			if _, err := stream.host.Write(flood); err != nil {
				return
			}
		}
	})
	tickUntil(t, pulse, stream.closed)
	pulse.over(t)
	within(t, ended, "the end of the request")
	if _, err := io.Copy(io.Discard, body); err == nil {
		t.Error("what came of it looks complete")
	}
	eventually(t, "the stream is no longer counted", func() bool { return streams.Open() == 0 })
}
