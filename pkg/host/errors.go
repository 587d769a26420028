// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// CredentialsError means that the credentials for a host are missing, cannot be
// used or could not be read. Nothing was sent to the host.
type CredentialsError struct {
	// Secret is the namespace and name of the Secret; where they are not known, whose it is.
	Secret string
	// Bastion is the bastion that they are for, as address:port. Empty: they are for the host.
	Bastion string
	// Unread: what the Secret has, and whether it is there, is not known, because the API server does not answer, or with an error that passes.
	// Such an error says nothing about the host.
	Unread bool
	// Err says what is wrong with it. It never holds anything of its content.
	Err error
}

// Error implements error.
func (e *CredentialsError) Error() string {
	text := "Secret " + e.Secret
	if e.Bastion != "" {
		text = "bastion " + e.Bastion + ": " + text
	}
	if e.Unread {
		text += " could not be read"
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Unwrap returns what is wrong.
func (e *CredentialsError) Unwrap() error { return e.Err }

// ShellError means that the login shell of a host is none that we know how to quote for. Nothing was run but the question for it.
type ShellError struct {
	// Err has what the shell said.
	Err error
}

// Error implements error.
func (e *ShellError) Error() string { return e.Err.Error() }

// Unwrap returns what the shell said.
func (e *ShellError) Unwrap() error { return e.Err }

// CommandError means that a request cannot be run on the host as it is, whatever the state of the host. Nothing was run.
type CommandError struct {
	// Err says why, and what to do instead.
	Err error
}

// Error implements error.
func (e *CommandError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *CommandError) Unwrap() error { return e.Err }

// PortError means that the host was reached and connected to no port of its own.
type PortError struct {
	// Port is the requested one.
	Port int
	// Err is the refusal, an [ssh.Error].
	Err error
}

// Error implements error.
func (e *PortError) Error() string {
	if failed, ok := ssh.AsError(e.Err); ok && failed.Reason == ssh.ReasonSessionRefused {
		return fmt.Sprintf("port %d: the SSH server of the host does not allow port forwarding, see AllowTcpForwarding and PermitOpen in its sshd_config: %v", e.Port, e.Err)
	}
	return fmt.Sprintf("port %d: nothing on the host accepts connections there, at 127.0.0.1: %v", e.Port, e.Err)
}

// Unwrap returns the refusal.
func (e *PortError) Unwrap() error { return e.Err }
