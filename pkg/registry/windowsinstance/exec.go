// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// ExecREST serves the subresource exec: a command or a shell on a host.
type ExecREST struct {
	sessions
}

var _ rest.Connecter = &ExecREST{}

// New implements [rest.Storage]. As with the exec of a Pod it is the kind of the options.
func (*ExecREST) New() runtime.Object { return &windows.WindowsInstanceExecOptions{} }

// NewConnectOptions implements [rest.Connecter]. The defaults are those of the type:
// every stream must be requested.
func (*ExecREST) NewConnectOptions() (options runtime.Object, hasPath bool, pathParameter string) {
	return &windows.WindowsInstanceExecOptions{}, false, ""
}

// Connect implements [rest.Connecter]: it runs the command and connects the client with it.
func (r *ExecREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, err := base.As[*windows.WindowsInstanceExecOptions](options)
	if err != nil {
		return nil, err
	}
	return r.connect(ctx, name, limits.Exec, 1, responder, func(w http.ResponseWriter, request *http.Request, session *session) error {
		if !o.Stdin && !o.Stdout && !o.Stderr {
			return apierrors.NewBadRequest("at least one of stdin, stdout and stderr must be true")
		}
		if err := stream.CheckExec(request); err != nil {
			return err
		}
		session.info.ExecOptions = stream.ExecOptions{Command: o.Command, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY}
		return r.serveExec(w, request, session)
	}), nil
}

func (r *ExecREST) serveExec(w http.ResponseWriter, request *http.Request, session *session) error {
	ctx, info := request.Context(), &session.info
	recorder, finish, err := session.record(ctx)
	if err != nil {
		return err
	}
	command, err := r.opener.OpenSession(ctx, info.Instance, info.ExecOptions)
	if err != nil {
		if closeErr := finish(false); closeErr != nil {
			klog.FromContext(ctx).Error(closeErr, "Removing the recording of a session that did not begin")
		}
		return err
	}
	session.serve(ctx, quoteCommand(info.Command), func() stream.Result {
		result := stream.ServeExec(w, request, info.ExecOptions, stream.Config{Drain: session.drain, Revoked: session.revoked, Backlog: &session.memory.Backlog, Recorder: recorder}, command)
		if err := finish(true); err != nil {
			session.notRecorded(ctx, err)
		}
		return result
	})
	return nil
}
