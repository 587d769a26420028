// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// TestEnsureAuthorized fails closed.
func TestEnsureAuthorized(t *testing.T) {
	answer := func(d authorizer.Decision, err error) authorizer.Authorizer {
		return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() != "create" || a.GetSubresource() != "exec" || a.GetName() != "win-1" || a.GetNamespace() != "ns" || a.GetUser().GetName() != "jane" {
				return authorizer.DecisionDeny, "asked for something else", nil
			}
			return d, "", err
		})
	}
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, Namespace: "ns", Resource: "windowsinstances", Subresource: "exec", Name: "win-1"}
	request := genericapirequest.WithRequestInfo(t.Context(), info)
	created := *info
	created.Verb = "create"
	jane := func(ctx context.Context) context.Context {
		return genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "jane"})
	}
	for _, test := range []struct {
		name       string
		ctx        context.Context //nolint:containedctx // what is tested
		authorizer authorizer.Authorizer
		want       int32 // 0: allowed
	}{
		{"allowed", jane(request), answer(authorizer.DecisionAllow, nil), 0},
		{"denied", jane(request), answer(authorizer.DecisionDeny, nil), http.StatusForbidden},
		{"no opinion", jane(request), answer(authorizer.DecisionNoOpinion, nil), http.StatusForbidden},
		{"denied although the request says create", jane(genericapirequest.WithRequestInfo(t.Context(), &created)), answer(authorizer.DecisionDeny, nil), http.StatusForbidden},
		{"no answer", jane(request), answer(authorizer.DecisionAllow, errors.New("timeout")), http.StatusInternalServerError},
		{"no user", request, answer(authorizer.DecisionAllow, nil), http.StatusForbidden},
		{"no request", jane(t.Context()), answer(authorizer.DecisionAllow, nil), http.StatusInternalServerError},
		{"no authorizer", jane(request), nil, http.StatusInternalServerError},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := ensureAuthorized(test.ctx, test.authorizer, verbCreate)
			var status apierrors.APIStatus
			switch {
			case test.want == 0 && err != nil:
				t.Errorf("got %v", err)
			case test.want != 0 && (!asStatus(err, &status) || status.Status().Code != test.want):
				t.Errorf("got %v, want %d", err, test.want)
			case test.want == http.StatusForbidden && !strings.Contains(err.Error(), `windowsinstances/exec.windows.openshift.io "win-1" is forbidden: this needs the verb "create" on windowsinstances/exec in namespace "ns"`):
				t.Errorf("got %v", err)
			}
		})
	}
}

// eventList keeps what sessions are told about.
type eventList struct{ notRecorded []error }

func (*eventList) Started(SessionInfo)                    {}
func (*eventList) Ended(SessionInfo, SessionEnd)          {}
func (l *eventList) NotRecorded(_ SessionInfo, err error) { l.notRecorded = append(l.notRecorded, err) }

func TestRecordingThatCannotBegin(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		name      string
		options   RecordingOptions
		refused   bool
		notEvents int
	}{
		{"not wanted", RecordingOptions{}, false, 0},
		{"wanted", RecordingOptions{Directory: missing}, false, 1},
		{"required", RecordingOptions{Directory: missing, Required: true}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := &eventList{}
			s := &session{sessions: &sessions{recording: test.options, events: events}, info: SessionInfo{Instance: &v1alpha1.WindowsInstance{}}}
			recorder, finish, err := s.record(t.Context())
			if test.refused != (err != nil) || recorder != nil {
				t.Errorf("got %v, %v", recorder, err)
			}
			if err != nil && (!apierrors.IsInternalError(err) || strings.Contains(err.Error(), missing)) {
				t.Errorf("got %v", err)
			}
			if err == nil && finish(true) != nil {
				t.Error("finish failed")
			}
			if len(events.notRecorded) != test.notEvents {
				t.Errorf("told %v", events.notRecorded)
			}
		})
	}
}

// failingRecorder is a disk that is full.
type failingRecorder struct{ calls int }

func (f *failingRecorder) Output([]byte) error         { f.calls++; return errors.New("disk full") }
func (f *failingRecorder) Input([]byte) error          { f.calls++; return errors.New("disk full") }
func (f *failingRecorder) Resize(uint16, uint16) error { f.calls++; return errors.New("disk full") }

// A session goes on without its recording, which is given up at the first error: what comes
// later would not fit.
func TestOptionalRecorder(t *testing.T) {
	output := func(r stream.Recorder) error { return r.Output(nil) }
	resize := func(r stream.Recorder) error { return r.Resize(1, 1) }
	for name, first := range map[string]func(stream.Recorder) error{"output": output, "resize": resize} {
		told, disk := 0, &failingRecorder{}
		r := &optionalRecorder{recording: disk, failed: func(error) { told++ }}
		if err := errors.Join(first(r), output(r), resize(r)); err != nil || told != 1 || disk.calls != 1 {
			t.Errorf("%s: told %d times of %d calls, %v", name, told, disk.calls, err)
		}
	}
}

func TestAllowedPorts(t *testing.T) {
	for _, test := range []struct {
		name    string
		allowed allowedPorts
		port    int
		want    string
	}{
		{"allowed", DefaultPortForwardPorts(), 3389, ""},
		{"SSH", DefaultPortForwardPorts(), 22, "port 22 is not allowed: the allowed ports are 3389, 5985, 5986, 9182, 10250"},
		{"none", nil, 3389, "port 3389 is not allowed: no port is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.allowed.check(test.port)
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestDescriptions(t *testing.T) {
	for _, test := range []struct{ name, got, want string }{
		{"shell", quoteCommand(nil), "(interactive shell)"},
		{"arguments", quoteCommand([]string{"a b", "", "\"\n"}), `"a b" "" "\"\n"`},
		{"ports", describePorts([]int32{1, 2}), "(port forward 1, 2)"},
		{"exit", SessionEnd{Result: stream.Result{End: stream.EndExited, ExitCode: 3, Received: 1, Sent: 2}}.String(), "end=Exited duration=0s exitCode=3 received=1 sent=2"},
		{"error", SessionEnd{Result: stream.Result{End: stream.EndFailed, Err: errors.New("lost")}}.String(), `end=Failed duration=0s received=0 sent=0 error="lost"`},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, test.got, test.want)
		}
	}
}
