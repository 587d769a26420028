// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/stream"
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

// Connect implements [rest.Connecter].
func (r *PortForwardREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	o, ok := options.(*windows.WindowsInstancePortForwardOptions)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("got options of type %T", options))
	}
	instance, err := r.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, port := range o.Ports {
		if err := r.ports.check(int(port)); err != nil {
			return nil, apierrors.NewForbidden(windows.Resource("windowsinstances/"+SubresourcePortForward), name, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		info := r.info(ctx, StreamPortForward, instance)
		info.Ports = o.Ports
		if err := r.serve(w, request, info); err != nil {
			responder.Error(err)
		}
	}), nil
}

// serve connects the client with ports of the host. Errors are those of before the
// upgrade.
func (r *PortForwardREST) serve(w http.ResponseWriter, request *http.Request, info SessionInfo) error {
	if err := stream.CheckPortForward(request); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	ctx := request.Context()
	drain, over, err := r.admit(info)
	if err != nil {
		return err
	}
	defer over()
	r.started(ctx, info, describePorts(info.Ports))
	result := stream.ServePortForward(w, request, stream.Config{Drain: drain}, func(ctx context.Context, port int) (stream.Conn, error) {
		if err := r.ports.check(port); err != nil {
			return nil, err
		}
		return r.opener.DialPort(ctx, info.Instance, port)
	})
	r.ended(ctx, info, result)
	return nil
}

// describePorts is for the audit log.
func describePorts(ports []int32) string {
	if len(ports) == 0 {
		return "(port forward)"
	}
	names := make([]string, len(ports))
	for i, port := range ports {
		names[i] = strconv.Itoa(int(port))
	}
	return "(port forward " + strings.Join(names, ", ") + ")"
}
