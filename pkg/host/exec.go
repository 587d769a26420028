// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/shell"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// ExecRequest says what [Access.Exec] runs.
type ExecRequest struct {
	// Command is the program and its arguments, which it gets as they are. The login shell of the host
	// finds the program, so that what is built into it can be run as well. Empty: the
	// login shell itself, interactively.
	Command []string
	// TTY is the terminal to run it on; nil: none.
	TTY *ssh.PTY
}

// Exec starts a program on the host of the instance, or a shell. It needs no agent there. The
// session ends with ctx, and must be closed. Errors are [CredentialsError]s,
// [ssh.Error]s, [ShellError]s and [CommandError]s.
func (a *Access) Exec(ctx context.Context, instance *v1alpha1.WindowsInstance, request ExecRequest) (*ssh.Session, error) {
	target, err := a.target(ctx, instance)
	if err != nil {
		return nil, err
	}
	var line string
	if len(request.Command) > 0 {
		if line, err = a.commandLine(ctx, target, request); err != nil {
			return nil, err
		}
	}
	return a.options.Pool.StartSession(ctx, target, line, ssh.SessionOptions{PTY: request.TTY})
}

// commandLine quotes the command for the shell of the host.
func (a *Access) commandLine(ctx context.Context, target ssh.Target, request ExecRequest) (string, error) {
	name, err := a.shell(ctx, target)
	if err != nil {
		return "", err
	}
	quote := shell.CommandLine
	if request.TTY != nil {
		quote = shell.TerminalCommandLine
	}
	line, err := quote(name, request.Command)
	if err != nil {
		return "", &CommandError{Err: err}
	}
	return line, nil
}
