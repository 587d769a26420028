// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// ExecREST serves the subresource exec: a command or a shell on a host.
type ExecREST struct {
	sessions
}

var _ rest.Connecter = &ExecREST{}

// New implements [rest.Storage]. As with the exec of a Pod it is the kind of the options.
func (*ExecREST) New() runtime.Object { return &windows.WindowsInstanceExecOptions{} }

// NewConnectOptions implements [rest.Connecter]. The defaults are those of the type:
// every stream has to be asked for.
func (*ExecREST) NewConnectOptions() (options runtime.Object, hasPath bool, pathParameter string) {
	return &windows.WindowsInstanceExecOptions{}, false, ""
}

// Connect implements [rest.Connecter].
func (r *ExecREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*windows.WindowsInstanceExecOptions)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("got options of type %T", options))
	}
	instance, err := r.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return nil, apierrors.NewBadRequest("at least one of stdin, stdout and stderr must be true")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		info := r.info(ctx, StreamExec, instance)
		info.ExecOptions = stream.ExecOptions{Command: o.Command, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY}
		if err := r.serve(w, request, info); err != nil {
			responder.Error(err)
		}
	}), nil
}

// serve runs the command and connects the client with it. Errors are those of before
// the upgrade.
func (r *ExecREST) serve(w http.ResponseWriter, request *http.Request, info SessionInfo) error {
	if err := stream.CheckExec(request); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	ctx := request.Context()
	drain, over, err := r.admit(info)
	if err != nil {
		return err
	}
	defer over()
	recorder, finish, err := r.record(ctx, info)
	if err != nil {
		return err
	}
	session, err := r.opener.OpenSession(ctx, info.Instance, info.ExecOptions)
	if err != nil {
		if closeErr := finish(); closeErr != nil {
			klog.FromContext(ctx).Error(closeErr, "Closing the recording of a session that did not begin")
		}
		return err
	}
	r.started(ctx, info, quoteCommand(info.Command))
	result := stream.ServeExec(w, request, info.ExecOptions, stream.Config{Drain: drain, Recorder: recorder}, session)
	if err := finish(); err != nil {
		r.notRecorded(ctx, info, err)
	}
	r.ended(ctx, info, result)
	return nil
}
