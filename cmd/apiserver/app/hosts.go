// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/openshift/windows-instance-api/pkg/agent/api"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// hosts is hostaccess as the registry wants it.
type hosts struct {
	access *host.Access
	// configurations are nil when nothing but our agent is put on hosts.
	configurations *cluster.Live
}

var _ windowsinstance.Hosts = hosts{}

// OpenLog implements [windowsinstance.LogOpener].
func (h hosts) OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (windowsinstance.LogStream, error) {
	stream, err := h.access.Logs(ctx, instance, request)
	if err != nil {
		return nil, host.StatusError(instance.Name, err)
	}
	return stream, nil
}

// OpenSession implements [windowsinstance.SessionOpener]. The terminal gets its size from
// the client, right after it is connected.
func (h hosts) OpenSession(ctx context.Context, instance *v1alpha1.WindowsInstance, request windowsinstance.SessionRequest) (stream.Session, error) {
	exec := host.ExecRequest{Command: request.Command}
	if request.TTY {
		exec.TTY = &ssh.PTY{}
	}
	s, err := h.access.Exec(ctx, instance, exec)
	if err != nil {
		return nil, host.StatusError(instance.Name, err)
	}
	return session{s, instance.Name}, nil
}

// DialPort implements [windowsinstance.SessionOpener].
func (h hosts) DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (net.Conn, error) {
	return h.access.Dial(ctx, instance, port)
}

// Inspect implements [windowsinstance.Inspector].
func (h hosts) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	inspection, err := h.access.Inspect(ctx, instance)
	if err != nil {
		return nil, host.StatusError(instance.Name, err)
	}
	return inspection, nil
}

// Check implements [windowsinstance.Checker].
func (h hosts) Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	return h.access.Check(ctx, instance)
}

// session is an SSH session as streamserver wants it.
type session struct {
	*ssh.Session
	instance string
}

// Stdin implements [stream.Session].
func (s session) Stdin() io.WriteCloser { return s.Session.Stdin }

// Stdout implements [stream.Session].
func (s session) Stdout() io.Reader { return s.Session.Stdout }

// Stderr implements [stream.Session].
func (s session) Stderr() io.Reader { return s.Session.Stderr }

// Wait implements [stream.Session].
func (s session) Wait() (exitCode int, err error) {
	err = s.Session.Wait()
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	if err != nil {
		return 0, host.StatusError(s.instance, err)
	}
	return 0, nil
}
