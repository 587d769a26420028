// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"net"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// PoolReader reads a pool.
type PoolReader = func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error)

// Hosts is the way to hosts, as the registry needs it. Its errors are those of the API.
type Hosts struct {
	access  *host.Access
	checker *diagnose.Checker
	// desired is nil when nothing but our agent is put on hosts.
	desired *cluster.Live
}

var _ windowsinstance.Hosts = (*Hosts)(nil)

// NewHosts returns the way to hosts through access. A nil desired: hosts are watched and
// not configured.
func NewHosts(access *host.Access, desired *cluster.Live) *Hosts {
	return &Hosts{access: access, checker: diagnose.NewChecker(access), desired: desired}
}

// OpenLog implements [windowsinstance.LogOpener].
func (h *Hosts) OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (windowsinstance.LogStream, error) {
	stream, err := h.access.Logs(ctx, instance, request)
	if err != nil {
		return nil, diagnose.StatusError(instance.Name, err)
	}
	return stream, nil
}

// OpenSession implements [windowsinstance.SessionOpener]. The terminal gets its size from
// the client, right after it is connected.
func (h *Hosts) OpenSession(ctx context.Context, instance *v1alpha1.WindowsInstance, options stream.ExecOptions) (stream.Session, error) {
	var tty *ssh.PTY
	if options.TTY {
		tty = &ssh.PTY{}
	}
	s, err := h.access.Exec(ctx, instance, options.Command, tty)
	if err != nil {
		return nil, diagnose.StatusError(instance.Name, err)
	}
	return session{s, instance.Name}, nil
}

// DialPort implements [windowsinstance.SessionOpener].
func (h *Hosts) DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (net.Conn, error) {
	return h.access.Dial(ctx, instance, port)
}

// Inspect implements [windowsinstance.Inspector].
func (h *Hosts) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	inspection, err := h.access.Inspect(ctx, instance)
	if err != nil {
		return nil, diagnose.StatusError(instance.Name, err)
	}
	return inspection, nil
}

// Check implements [windowsinstance.Checker].
func (h *Hosts) Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	return h.checker.Check(ctx, instance)
}
