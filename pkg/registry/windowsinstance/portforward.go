// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// DefaultPortForwardPorts are the ports of a Windows node that people need: RDP, WinRM
// over HTTP and HTTPS, windows_exporter, and the kubelet. SSH is not among them: it
// would be a way to log in that none of our limits and records see.
func DefaultPortForwardPorts() []int { return []int{3389, 5985, 5986, 9182, 10250} }

// PortForwardREST serves the subresource portforward: TCP to ports of the host itself.
type PortForwardREST struct {
	sessions
	ports allowedPorts
}

var _ rest.Connecter = &PortForwardREST{}

// allowedPorts are the ports that may be forwarded to.
type allowedPorts []int

// check refuses other ports.
func (a allowedPorts) check(port int) error {
	if slices.Contains(a, port) {
		return nil
	}
	if len(a) == 0 {
		return fmt.Errorf("port %d is not allowed: no port is", port)
	}
	names := make([]string, len(a))
	for i, p := range a {
		names[i] = strconv.Itoa(p)
	}
	return fmt.Errorf("port %d is not allowed: the allowed ports are %s", port, strings.Join(names, ", "))
}

// New implements [rest.Storage]. As with the portforward of a Pod it is the kind of
// the options.
func (*PortForwardREST) New() runtime.Object { return &windows.WindowsInstancePortForwardOptions{} }

// NewConnectOptions implements [rest.Connecter].
func (*PortForwardREST) NewConnectOptions() (options runtime.Object, hasPath bool, pathParameter string) {
	return &windows.WindowsInstancePortForwardOptions{}, false, ""
}

// Connect implements [rest.Connecter]: it connects the client with ports of the host.
func (r *PortForwardREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, err := base.As[*windows.WindowsInstancePortForwardOptions](options)
	if err != nil {
		return nil, err
	}
	return r.connect(ctx, name, limits.PortForward, max(1, len(o.Ports)), responder, func(w http.ResponseWriter, request *http.Request, session *session) error {
		if r.recording.Required && !r.recording.AllowPortForward {
			return apierrors.NewForbidden(windows.Resource("windowsinstances/portforward"), name,
				errors.New("sessions must be recorded here, and what goes through a port forward cannot be (--session-recording-required)"))
		}
		for _, port := range o.Ports {
			if err := r.ports.check(int(port)); err != nil {
				return apierrors.NewForbidden(windows.Resource("windowsinstances/portforward"), name, err)
			}
		}
		if err := stream.CheckPortForward(request, o.Ports); err != nil {
			return err
		}
		session.info.Ports = o.Ports
		info := &session.info
		session.serve(request.Context(), describePorts(info.Ports), func() stream.Result {
			return stream.ServePortForward(w, request, stream.Config{Drain: session.drain, Revoked: session.revoked, Backlog: &session.memory.Backlog}, info.Ports, func(ctx context.Context, port int) (stream.Conn, error) {
				return r.opener.DialPort(ctx, info.Instance, port)
			})
		})
		return nil
	}), nil
}

// describePorts is for the audit log.
func describePorts(ports []int32) string {
	names := make([]string, len(ports))
	for i, port := range ports {
		names[i] = strconv.Itoa(int(port))
	}
	return "(port forward " + strings.Join(names, ", ") + ")"
}
