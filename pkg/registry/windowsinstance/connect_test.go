// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return nil, errClosed
}

// answers keeps the error that a handler answers with.
type answers struct {
	rest.Responder // nil: nothing but Error is expected to be called

	err error
}

func (a *answers) Error(err error) { a.err = err }

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
		{"forward without an upgrade", "portforward", "win-1", forward(3389), authorizer.DecisionAllow, true, 400, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance())
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
						"Sec-WebSocket-Protocol": map[string]string{"exec": "v5.channel.k8s.io", "portforward": "SPDY/3.1+portforward.k8s.io"}[tt.resource],
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
			if s.hosts.events != tt.events {
				t.Errorf("%d events, want %d", s.hosts.events, tt.events)
			}
			want := "create windowsinstances/" + tt.instance
			if diff := cmp.Diff([]string{want}, s.rights()); diff != "" {
				t.Errorf("asked for (-want +got)\n%s", diff)
			}
			if s.streams.Open() > 0 {
				t.Error("a session is still counted")
			}
		})
	}
}

func (h *hosts) Started(SessionInfo)            { h.events++ }
func (h *hosts) Ended(SessionInfo, SessionEnd)  { h.events++ }
func (h *hosts) NotRecorded(SessionInfo, error) {}
