// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

// PoolReader reads a pool.
type PoolReader = func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error)

// Hosts is the way to hosts, as the registry needs it. Its errors are those of the API.
type Hosts struct {
	connector *host.Connector
	agents    *agentclient.Client
	checker   *diagnose.Checker
	// desired is nil when nothing but our agent is installed on hosts.
	desired *cluster.Live
}

var _ windowsinstance.Hosts = (*Hosts)(nil)

// NewHosts returns the way to hosts through connector and their agents. A nil desired: hosts
// are watched and not configured.
func NewHosts(connector *host.Connector, agents *agentclient.Client, desired *cluster.Live) *Hosts {
	return &Hosts{connector: connector, agents: agents, checker: diagnose.NewChecker(connector, agents, reachOf(desired)), desired: desired}
}

// reachOf returns how hosts reach the API server. Nil: they are only watched, and need not reach it.
func reachOf(desired *cluster.Live) diagnose.ReachAsker {
	if desired == nil {
		return nil
	}
	return func(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.ReachRequest, error) {
		built, _, err := desired.Build(ctx, instance)
		if err != nil || built == nil {
			return nil, err
		}
		return &built.Reach, nil
	}
}

// answer passes on what a host gave, and an error as what an API client gets.
func answer[T any](instance *v1alpha1.WindowsInstance, value T, err error) (T, error) {
	if err != nil {
		var none T
		return none, diagnose.StatusError(instance.Name, err)
	}
	return value, nil
}

// OpenLog implements [windowsinstance.LogOpener].
func (h *Hosts) OpenLog(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.LogRequest) (windowsinstance.LogStream, error) {
	log, err := h.agents.Logs(ctx, instance, request)
	return answer[windowsinstance.LogStream](instance, log, err)
}

// OpenSession implements [windowsinstance.SessionOpener]. The terminal gets its size from
// the client, right after it is connected.
func (h *Hosts) OpenSession(ctx context.Context, instance *v1alpha1.WindowsInstance, options stream.ExecOptions) (stream.Session, error) {
	var tty *ssh.PTY
	if options.TTY {
		tty = &ssh.PTY{}
	}
	s, err := h.connector.Exec(ctx, instance, options.Command, tty)
	return answer[stream.Session](instance, session{s, instance}, err)
}

// DialPort implements [windowsinstance.SessionOpener].
func (h *Hosts) DialPort(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (stream.Conn, error) {
	conn, err := h.connector.Dial(ctx, instance, port)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Inspect implements [windowsinstance.Inspector].
func (h *Hosts) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	inspection, err := h.agents.Inspect(ctx, instance)
	return answer(instance, inspection, err)
}

// Check implements [windowsinstance.Checker].
func (h *Hosts) Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	return h.checker.Check(ctx, instance)
}
