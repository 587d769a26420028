// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"

	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// session is an SSH session whose errors are what an API client gets.
type session struct {
	*ssh.Session
	instance string
}

// Wait implements [stream.Session].
func (s session) Wait() (exitCode int, err error) {
	err = s.Session.Wait()
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	if err != nil {
		return 0, diagnose.StatusError(s.instance, err)
	}
	return 0, nil
}
