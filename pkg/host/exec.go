// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/shell"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Exec starts a program on the host of the instance. The login shell of the host finds it,
// so that what is built into the shell can be run as well; an empty command is the shell
// itself, interactively. tty is the terminal to run it on; nil: none. No agent is needed on the host. The
// session ends with ctx, and must be closed. Errors are [CredentialsError]s,
// [ssh.Error]s, [ShellError]s and [CommandError]s.
func (c *Connector) Exec(ctx context.Context, instance *v1alpha1.WindowsInstance, command []string, tty *ssh.PTY) (*ssh.Session, error) {
	target, err := c.Target(ctx, instance)
	if err != nil {
		return nil, err
	}
	var line string
	if len(command) > 0 {
		if line, err = c.commandLine(ctx, target, command, tty); err != nil {
			return nil, err
		}
	}
	return c.options.Pool.StartSession(ctx, target, line, tty)
}

// commandLine quotes the command for the shell of the host.
func (c *Connector) commandLine(ctx context.Context, target ssh.Target, command []string, tty *ssh.PTY) (string, error) {
	name, err := c.shell(ctx, target)
	if err != nil {
		return "", err
	}
	quote := shell.CommandLine
	if tty != nil {
		quote = shell.TerminalCommandLine
	}
	line, err := quote(name, command)
	if err != nil {
		return "", &CommandError{Err: err}
	}
	return line, nil
}
