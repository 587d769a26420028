// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/recording"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// Keys of the audit annotations of sessions.
const (
	// auditSessionCommand is what was run, each argument quoted; or the ports.
	auditSessionCommand = "windows.openshift.io/session-command"
	// auditSessionEnd is how a session ended.
	auditSessionEnd = "windows.openshift.io/session-end"
	// auditSessionRecording is the file with the recording, or why there is none.
	auditSessionRecording = "windows.openshift.io/session-recording"
)

// SessionOpener runs commands on hosts and connects to their ports.
type SessionOpener interface {
	// OpenSession returns once the command runs, so that every refusal is still an
	// HTTP error; errors are [apierrors.StatusError]s. The session ends when ctx does.
	OpenSession(ctx context.Context, instance *v1alpha1.WindowsInstance, options stream.ExecOptions) (stream.Session, error)
	// DialPort connects to a port of the host itself. Its errors are shown to users.
	DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (stream.Conn, error)
}

// SessionInfo describes a session: who, what, where. What is typed is not part of it.
type SessionInfo struct {
	Kind     limits.Kind
	Instance *v1alpha1.WindowsInstance
	User     string
	// ExecOptions are for limits.Exec.
	stream.ExecOptions
	// Ports are those that are forwarded to, for limits.PortForward.
	Ports []int32
	// AuditID is that of the request, which also kube-apiserver's audit log has.
	AuditID types.UID
	Start   time.Time
}

// SessionEnd is how a session ended.
type SessionEnd struct {
	stream.Result
	Duration time.Duration
}

// SessionEvents receives the events of sessions. Calls must not block for long.
type SessionEvents interface {
	Started(SessionInfo)
	// NotRecorded says that a session which should be recorded is not, from now on.
	NotRecorded(SessionInfo, error)
	Ended(SessionInfo, SessionEnd)
}

// RecordingOptions say whether sessions are recorded.
type RecordingOptions struct {
	// Directory is where the files go; empty: nothing is recorded.
	Directory string
	// Required refuses and ends sessions that cannot be recorded, port forwards among them.
	Required bool
	// AllowPortForward allows port forwards although recording is required: what goes through them is
	// not recorded.
	AllowPortForward bool
	// MaxSize is how large one file gets, and MinFree how much space of the volume they leave
	// to others; what would need more cannot be recorded. 0: no limit.
	MaxSize, MinFree resource.QuantityValue
}

// directory is where the files go.
func (o *RecordingOptions) directory() recording.Directory {
	return recording.Directory{Path: o.Directory, MaxSize: o.MaxSize.Value(), MinFree: o.MinFree.Value()}
}

// sessions is what exec and portforward have in common.
type sessions struct {
	instances  rest.Getter
	authorizer authorizer.Authorizer
	rechecks   *rechecks
	opener     SessionOpener
	events     SessionEvents
	streams    *limits.Streams
	track      tracker
	recording  RecordingOptions
}

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*sessions) Destroy() {}

// ConnectMethods implements [rest.Connecter]: GET opens a WebSocket. Clients of SPDY begin with
// POST, and learn what else they need.
func (*sessions) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// OverrideMetricsVerb keeps streams, which last as long as somebody uses them, out of
// the latencies of short requests. The installer of the API calls it.
func (*sessions) OverrideMetricsVerb(string) string { return "CONNECT" }

// connect returns a handler that admits a request, authorizes it, finds its instance, and serves the
// session with that many connections. Errors of serve are those of before the upgrade.
func (s *sessions) connect(ctx context.Context, name string, kind limits.Kind, connections int, responder rest.Responder, serve func(http.ResponseWriter, *http.Request, *session) error) http.Handler {
	handle := func(w http.ResponseWriter, request *http.Request) error {
		admitted, err := admit(ctx, s.streams, kind, name, connections)
		if err != nil {
			return err
		}
		defer admitted.Release()
		if err := ensureAuthorized(ctx, s.authorizer, verbCreate); err != nil {
			return err
		}
		instance, err := getKnown(ctx, s.instances, name)
		if err != nil {
			return err
		}
		session := s.open(admitted, SessionInfo{Kind: kind, Instance: instance, User: userOrUnknown(ctx), Start: time.Now()})
		defer session.untrack()
		session.info.AuditID, _ = audit.AuditIDFrom(ctx)
		return serve(w, request, session)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := handle(w, request); err != nil {
			responder.Error(err)
		}
	})
}

// session is one that was admitted.
type session struct {
	*sessions
	info SessionInfo
	// drain is closed when the server stops.
	drain chan struct{}
	// revoked takes why the session must not go on.
	revoked chan error
	memory  *relief.Stream
	untrack func()
}

// open makes a session of one that was admitted.
func (s *sessions) open(admitted *limits.Stream, info SessionInfo) *session {
	drain := make(chan struct{})
	admitted.OnDrain(sync.OnceFunc(func() { close(drain) }), nil) // the server does not wait for it any longer
	memory, untrack := s.track(info.Instance.Namespace, info.User)
	return &session{sessions: s, info: info, drain: drain, revoked: make(chan error, 1), memory: memory, untrack: untrack}
}

// serve runs a session to its end, and reports its begin and its end. What is the command
// or the ports, for the audit log. Meanwhile it asks again whether the session is allowed.
func (s *session) serve(ctx context.Context, what string, run func() stream.Result) {
	audit.AddAuditAnnotation(ctx, auditSessionCommand, what)
	s.events.Started(s.info)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := s.rechecks.watch(watching, s.memory.Relieved(), s.rechecks.still(verbCreate, s.info.Instance)); err != nil {
			s.revoked <- err
		}
	})
	defer watch.Wait()
	defer stop()
	end := SessionEnd{Result: run(), Duration: time.Since(s.info.Start)}
	audit.AddAuditAnnotation(ctx, auditSessionEnd, end.String())
	s.events.Ended(s.info, end)
}

// The verbs that streams need.
const (
	verbGet = "get"
	// verbCreate is that of sessions, whatever the HTTP method is: a WebSocket is opened with GET, and
	// users that may get must not run commands.
	verbCreate = "create"
)

// ensureAuthorized requires a verb on the subresource of the request. It fails closed. A request
// that was authorized for the verb already is authorized again: the context has the result,
// and not who decided it.
func ensureAuthorized(ctx context.Context, a authorizer.Authorizer, verb string) error {
	of, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading what is to be authorized: %w", err))
	}
	return base.Require(ctx, a, verbAttributes{of, verb}, func(why string) error {
		resource := of.GetResource() + "/" + of.GetSubresource()
		return apierrors.NewForbidden(windows.Resource(resource), of.GetName(), fmt.Errorf("this needs the verb %q on %s in namespace %q: %s", verb, resource, of.GetNamespace(), why))
	})
}

// verbAttributes are the attributes of a request with another verb.
type verbAttributes struct {
	authorizer.Attributes
	verb string
}

// GetVerb implements [authorizer.Attributes].
func (a verbAttributes) GetVerb() string { return a.verb }

// String is for audit logs and events.
func (e SessionEnd) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "end=%s duration=%s", e.End, e.Duration.Round(time.Millisecond))
	if e.End == stream.EndExited {
		fmt.Fprintf(&b, " exitCode=%d", e.ExitCode)
	}
	fmt.Fprintf(&b, " received=%d sent=%d", e.Received, e.Sent)
	if e.Err != nil {
		fmt.Fprintf(&b, " error=%q", e.Err)
	}
	return b.String()
}

// quoteCommand quotes each argument of a command.
func quoteCommand(command []string) string {
	if len(command) == 0 {
		return "(interactive shell)"
	}
	quoted := make([]string, len(command))
	for i, argument := range command {
		quoted[i] = strconv.Quote(argument)
	}
	return strings.Join(quoted, " ")
}

// record begins the recording of a session. Without an error the returned recorder
// may be nil: nothing is to be recorded, or nothing can be and need not. finish must be
// called in any case; it reports a recording that was required and is not complete, and removes that of a session that
// has not begun.
func (s *session) record(ctx context.Context) (recorder stream.Recorder, finish func(began bool) error, err error) {
	nothing := func(bool) error { return nil }
	if s.recording.Directory == "" {
		return nil, nothing, nil
	}
	recording, err := s.recording.directory().Create(recording.Header{
		Start: s.info.Start, Namespace: s.info.Instance.Namespace, Name: s.info.Instance.Name,
		User: s.info.User, AuditID: string(s.info.AuditID), Command: strings.Join(s.info.Command, " "), TTY: s.info.TTY,
	})
	if err != nil {
		if s.recording.Required {
			klog.FromContext(ctx).Error(err, "Refusing a session that cannot be recorded")
			return nil, nil, apierrors.NewInternalError(errors.New("sessions must be recorded here, and this one cannot be: see the log of the server"))
		}
		s.notRecorded(ctx, err)
		return nil, nothing, nil
	}
	audit.AddAuditAnnotation(ctx, auditSessionRecording, recording.Path())
	end := func(began bool) error {
		if began {
			return recording.Close()
		}
		return recording.Discard()
	}
	if s.recording.Required {
		return recording, end, nil
	}
	optional := &optionalRecorder{recording: recording, failed: func(err error) { s.notRecorded(ctx, err) }}
	return optional, func(began bool) error {
		optional.check(end(began))
		return nil
	}, nil
}

func (s *session) notRecorded(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "A session is not recorded, or not completely", "user", s.info.User, "instance", klog.KObj(s.info.Instance))
	s.events.NotRecorded(s.info, err)
}

// optionalRecorder lets a session continue that cannot be recorded. Its calls do not overlap.
type optionalRecorder struct {
	recording stream.Recorder
	failed    func(error) // called once
	over      bool
}

// Output implements [stream.Recorder].
func (o *optionalRecorder) Output(p []byte) error {
	if !o.over {
		o.check(o.recording.Output(p))
	}
	return nil
}

// Input implements [stream.Recorder].
func (o *optionalRecorder) Input(p []byte) error {
	if !o.over {
		o.check(o.recording.Input(p))
	}
	return nil
}

// Resize implements [stream.Recorder].
func (o *optionalRecorder) Resize(columns, rows uint16) error {
	if !o.over {
		o.check(o.recording.Resize(columns, rows))
	}
	return nil
}

func (o *optionalRecorder) check(err error) {
	if err != nil && !o.over {
		o.over = true
		o.failed(err)
	}
}
