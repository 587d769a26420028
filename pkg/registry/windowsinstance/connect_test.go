// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// errClosed is what the host of a test answers with.
var errClosed = apierrors.NewServiceUnavailable("the host is off")

func (h *hosts) OpenSession(_ context.Context, instance *v1alpha1.WindowsInstance, o stream.ExecOptions) (stream.Session, error) {
	h.opened = append(h.opened, instance.Name+" "+strings.Join(o.Command, " "))
	h.options = append(h.options, o)
	if h.command != nil {
		return h.command, nil
	}
	return nil, errClosed
}

// hangingPort is one to which a connection is never made.
const hangingPort = 5986

func (h *hosts) DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (stream.Conn, error) {
	if port == hangingPort {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = append(h.opened, fmt.Sprintf("%s port %d", instance.Name, port))
	return nil, errors.New("nothing listens")
}

// answers keeps the error that a handler answers with.
type answers struct {
	rest.Responder // nil: nothing but Error is expected to be called

	err    error
	called bool
}

func (a *answers) Error(err error) { a.err, a.called = err, true }

// Who may get but not create gets no session, whatever the method; and nothing is opened that is not allowed.
func TestSessionsAreGuarded(t *testing.T) {
	exec := func(o windows.WindowsInstanceExecOptions) runtime.Object { return &o }
	forward := func(ports ...int32) runtime.Object { return &windows.WindowsInstancePortForwardOptions{Ports: ports} }
	command := exec(windows.WindowsInstanceExecOptions{Command: []string{"cmd", "/c"}, Stdout: true})
	tests := []struct {
		name     string
		resource string
		instance string
		options  runtime.Object
		decision authorizer.Decision
		plain    bool // no upgrade
		want     int32
		opened   []string
		events   int
	}{
		{"exec", "exec", "win-1", command, authorizer.DecisionAllow, false, 503, []string{"win-1 cmd /c"}, 0},
		{"exec, with the right to get", "exec", "win-1", command, authorizer.DecisionNoOpinion, false, 403, nil, 0},
		{"exec, no such instance", "exec", "win-2", command, authorizer.DecisionAllow, false, 404, nil, 0},
		{"exec without streams", "exec", "win-1", exec(windows.WindowsInstanceExecOptions{}), authorizer.DecisionAllow, false, 400, nil, 0},
		{"exec with stdin alone", "exec", "win-1", exec(windows.WindowsInstanceExecOptions{Stdin: true}), authorizer.DecisionAllow, false, 503, []string{"win-1 "}, 0},
		{"exec with stderr alone", "exec", "win-1", exec(windows.WindowsInstanceExecOptions{Stderr: true}), authorizer.DecisionAllow, false, 503, []string{"win-1 "}, 0},
		{"exec without an upgrade", "exec", "win-1", command, authorizer.DecisionAllow, true, 400, nil, 0},
		{"forward", "portforward", "win-1", forward(3389), authorizer.DecisionAllow, false, 0, nil, 2},
		{"forward, with the right to get", "portforward", "win-1", forward(3389), authorizer.DecisionNoOpinion, false, 403, nil, 0},
		{"forward another port", "portforward", "win-1", forward(3389, 22), authorizer.DecisionAllow, false, 403, nil, 0},
		{"forward no port", "portforward", "win-1", forward(), authorizer.DecisionAllow, false, 400, nil, 0},
		{"forward without an upgrade", "portforward", "win-1", forward(3389), authorizer.DecisionAllow, true, 400, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
			s.asked.decision = tt.decision
			ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{
				IsResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, Namespace: "default", Resource: "windowsinstances", Subresource: tt.resource, Name: tt.instance,
			})
			ctx = genericapirequest.WithUser(genericapirequest.WithNamespace(ctx, "default"), &user.DefaultInfo{Name: "jane"})
			var connecter rest.Connecter = s.Exec
			if tt.resource == "portforward" {
				connecter = s.PortForward
			}
			answer := &answers{}
			handler, err := connecter.Connect(ctx, tt.instance, tt.options, answer)
			if err == nil {
				request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				if !tt.plain {
					for key, value := range map[string]string{
						"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
						"Sec-WebSocket-Protocol": map[string]string{"exec": "v5.channel.k8s.io", "portforward": "v4.channel.k8s.io"}[tt.resource],
					} {
						request.Header.Set(key, value)
					}
				}
				handler.ServeHTTP(httptest.NewRecorder(), request)
				err = answer.err
			}
			var status apierrors.APIStatus
			if code := int32(0); errors.As(err, &status) {
				if code = status.Status().Code; code != tt.want {
					t.Errorf("got %d, %v, want %d", code, err, tt.want)
				}
			} else if err != nil || tt.want != 0 {
				t.Errorf("got %v, want %d", err, tt.want)
			}
			if diff := cmp.Diff(tt.opened, s.hosts.opened); diff != "" {
				t.Errorf("opened (-want +got)\n%s", diff)
			}
			if events := len(s.hosts.started) + len(s.hosts.ended); events != tt.events {
				t.Errorf("%d events, want %d", events, tt.events)
			}
			if answer.called && answer.err == nil {
				t.Error("a session that was served is answered once more")
			}
			want := "create windowsinstances/" + tt.instance
			if diff := cmp.Diff([]string{want}, s.rights()); diff != "" {
				t.Errorf("asked for (-want +got)\n%s", diff)
			}
			if s.streams.Open() > 0 || s.tracked.Load() > 0 {
				t.Error("a session is still counted")
			}
		})
	}
}

// What must be recorded and cannot be is refused, unless that was allowed.
func TestPortForwardWhereSessionsMustBeRecorded(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		s := newStorage(t, base.Deleters{}, newInstance(loggedIn))
		s.asked.decision = authorizer.DecisionAllow
		s.PortForward.recording.Required, s.PortForward.recording.AllowPortForward = true, allowed
		ctx := genericapirequest.WithRequestInfo(as("jane"), &genericapirequest.RequestInfo{
			IsResourceRequest: true, Verb: "create", APIGroup: v1alpha1.GroupName, Namespace: "default", Resource: "windowsinstances", Subresource: "portforward", Name: "win-1",
		})
		answer := &answers{}
		handler, err := s.PortForward.Connect(genericapirequest.WithNamespace(ctx, "default"), "win-1", &windows.WindowsInstancePortForwardOptions{Ports: []int32{3389}}, answer)
		if err != nil {
			t.Fatal(err)
		}
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if apierrors.IsForbidden(answer.err) == allowed {
			t.Errorf("allowed %v: got %v", allowed, answer.err)
		}
	}
}

func (h *hosts) Started(info SessionInfo)          { h.started = append(h.started, info) }
func (h *hosts) Ended(_ SessionInfo, e SessionEnd) { h.ended = append(h.ended, e) }
func (h *hosts) NotRecorded(SessionInfo, error)    { h.notRecorded++ }

// Each resource has what it needs; without it, it would fail when it is first used.
func TestStorageIsComplete(t *testing.T) {
	s := newStorage(t, base.Deleters{})
	fields := reflect.ValueOf(*s.Storage)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		if fields.Field(i).IsNil() {
			t.Errorf("%s is missing", name)
		}
	}
	store := s.Instance.Store
	if store.CreateStrategy == nil || store.UpdateStrategy == nil || store.DeleteStrategy == nil || store.ResetFieldsStrategy == nil || store.TableConvertor != (tableConvertor{}) ||
		store.DefaultQualifiedResource != windows.Resource("windowsinstances") || store.SingularQualifiedResource != windows.Resource("windowsinstance") {
		t.Errorf("the store is %+v", store)
	}
	if s.Inspect.instances != rest.Getter(store) || s.Inspect.inspector == nil || s.Check.instances != rest.Getter(store) || s.Check.checker == nil || s.Exec.events == nil {
		t.Error("a live subresource lacks its store or the way to hosts")
	}
	if _, lenient := s.Instance.namespaceDeletions.store.UpdateStrategy.(uncheckedStrategy); !lenient {
		t.Error("a host is not released when its instance is not valid any more")
	}
	if short, categories := s.Instance.ShortNames(), s.Instance.Categories(); !slices.Equal(short, []string{"wi"}) || !slices.Equal(categories, []string{"windows"}) {
		t.Errorf("kubectl get takes %q and %q", short, categories)
	}
	for _, c := range []rest.Connecter{s.Exec, s.PortForward} {
		if options, path, _ := c.NewConnectOptions(); path || options == nil {
			t.Errorf("%T has options %T and a path: %v", c, options, path)
		}
	}
	if diff := cmp.Diff([]string{"log", "logs", "exec", "portforward"}, LongRunningSubresources()); diff != "" {
		t.Errorf("long-running (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{http.MethodGet, http.MethodPost}, s.Exec.ConnectMethods()); diff != "" || s.Exec.OverrideMetricsVerb("GET") != "CONNECT" {
		t.Errorf("methods (-want +got)\n%s", diff)
	}
}

// A recording says whose session it is; when it must be kept, the session ends with it.
func TestRecordingBegins(t *testing.T) {
	for _, required := range []bool{false, true} {
		events := &eventList{}
		s := &session{
			sessions: &sessions{recording: RecordingOptions{Directory: t.TempDir(), Required: required}, events: events},
			info: SessionInfo{
				Instance: &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-7", Name: "win-1"}}, Start: noon,
				ExecOptions: stream.ExecOptions{Command: []string{"cmd", "/c"}, TTY: true},
				User:        "jane", AuditID: "audit-1",
			},
		}
		recorder, finish, err := s.record(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, optional := recorder.(*optionalRecorder); optional == required {
			t.Errorf("required %v: it is a %T", required, recorder)
		}
		if err := errors.Join(recorder.Resize(80, 24), recorder.Output([]byte("hello\n")), finish(true)); err != nil {
			t.Error(err)
		}
		files, err := filepath.Glob(filepath.Join(s.recording.Directory, "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("got %v, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"tenant-7/win-1", "cmd /c", `"jane"`, `"audit-1"`, strconv.FormatInt(noon.Unix(), 10), `"hello\n"`, `"80x24"`} {
			if !strings.Contains(files[0]+string(text), want) {
				t.Errorf("%q is missing in %s: %s", want, files[0], text)
			}
		}
		// What cannot be written any more ends a session that must be recorded, and is told of otherwise, once.
		err = errors.Join(recorder.Output([]byte("more")), finish(true))
		if (err != nil) != required || (len(events.notRecorded) > 0) == required || len(events.notRecorded) > 1 {
			t.Errorf("required %v: got %v, told %v", required, err, events.notRecorded)
		}
	}
}

func TestUserOrUnknown(t *testing.T) {
	if got := userOrUnknown(as("jane")) + " " + userOrUnknown(t.Context()); got != "jane unknown" {
		t.Errorf("got %q", got)
	}
}
