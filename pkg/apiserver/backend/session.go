// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"
	"io"

	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// session is an SSH session as [stream.ServeExec] needs it.
type session struct {
	*ssh.Session
	instance string
}

// Stdin implements [stream.Session].
func (s session) Stdin() io.WriteCloser { return s.Session.Stdin }

// Stdout implements [stream.Session].
func (s session) Stdout() io.Reader { return s.Session.Stdout }

// Stderr implements [stream.Session].
func (s session) Stderr() io.Reader { return s.Session.Stderr }

// Wait implements [stream.Session].
func (s session) Wait() (exitCode int, err error) {
	err = s.Session.Wait()
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	if err != nil {
		return 0, host.StatusError(s.instance, err)
	}
	return 0, nil
}
