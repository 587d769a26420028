// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"time"

	"github.com/openshift/windows-instance-api/pkg/host/shell"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	// probeTimeout bounds probing the shell of a host. PowerShell with a profile takes seconds to start.
	probeTimeout = 30 * time.Second
	// maxProbe is how much of the answer is kept: its end, since profiles may print something before it.
	maxProbe = 4 << 10
	// shellLifetime is how long the answer is used. Nothing reports that an administrator has set
	// another shell, which then misreads our command lines.
	shellLifetime = 10 * time.Minute
)

// shell returns the login shell of the host. Callers for the same target share the question: what
// another account answers, or why it could not be asked, is nobody else's.
func (c *Connector) shell(ctx context.Context, target ssh.Target) (shell.Shell, error) {
	return c.shells.Get(ctx, target.Owner, target.Identity(), func(ctx context.Context) (shell.Shell, error) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return c.askShell(ctx, target)
	})
}

// askShell runs the probe. Its exit code does not matter: what counts is what the shell printed.
func (c *Connector) askShell(ctx context.Context, target ssh.Target) (shell.Shell, error) {
	var out tail
	err := c.options.Pool.Run(ctx, target, shell.Probe(), nil, &out)
	var exit *ssh.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	shell, err := shell.Detect(string(out))
	if err != nil {
		return "", &ShellError{Err: err}
	}
	return shell, nil
}

// tail is a writer that keeps the last maxProbe bytes.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-maxProbe):]
	return len(p), nil
}
