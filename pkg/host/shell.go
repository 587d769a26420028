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

// knownShell is a host's answer.
type knownShell struct {
	shell shell.Shell
	until time.Time
}

// shell returns the login shell of the host. Callers for the same host share the question, which goes
// on when the first of them leaves.
func (c *Connector) shell(ctx context.Context, target ssh.Target) (shell.Shell, error) {
	key := target.Endpoint()
	if known, ok := c.knownShell(key); ok {
		return known, nil
	}
	done := c.probe.DoChan(key, func() (any, error) {
		// The question of another caller may have been answered since.
		if known, ok := c.knownShell(key); ok {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		shell, err := c.askShell(ctx, target)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.shells[key] = knownShell{shell, time.Now().Add(shellLifetime)}
		c.mu.Unlock()
		return shell, nil
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return "", result.Err
		}
		return result.Val.(shell.Shell), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// knownShell returns the shell that the host was found to have lately.
func (c *Connector) knownShell(key string) (shell.Shell, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.shells[key]
	return known.shell, ok && time.Now().Before(known.until)
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
	if drop := len(*t) - maxProbe; drop > 0 {
		*t = append((*t)[:0], (*t)[drop:]...)
	}
	return len(p), nil
}
