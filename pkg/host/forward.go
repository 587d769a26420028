// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"fmt"
	"math"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Dial connects to a TCP port of the host of the instance, at 127.0.0.1 as the host sees it. It needs no
// agent there. The connection ends with ctx, and must be closed. Errors are [CredentialsError]s,
// [ssh.Error]s, and [PortError]s where the host is reached and the port is not.
func (c *Connector) Dial(ctx context.Context, instance *v1alpha1.WindowsInstance, port int) (*ssh.Forward, error) {
	if port < 1 || port > math.MaxUint16 {
		return nil, &CommandError{Err: fmt.Errorf("port %d is not between 1 and 65535", port)}
	}
	target, err := c.Target(ctx, instance)
	if err != nil {
		return nil, err
	}
	conn, err := c.options.Pool.Dial(ctx, target, uint16(port))
	if err != nil {
		return nil, portFailure(port, err)
	}
	return conn, nil
}

// portFailure distinguishes a port that cannot be reached from a host that cannot.
func portFailure(port int, err error) error {
	failed, ok := ssh.AsError(err)
	if ok && failed.Layer == ssh.LayerSession && (failed.Reason == ssh.ReasonConnectionRefused || failed.Reason == ssh.ReasonSessionRefused) {
		return &PortError{Port: port, Err: err}
	}
	return err
}
