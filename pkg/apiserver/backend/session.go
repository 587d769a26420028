// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// session is an SSH session whose errors are what an API client gets.
type session struct {
	*ssh.Session
	instance *v1alpha1.WindowsInstance
}

// Wait implements [stream.Session].
func (s session) Wait() (exitCode int, err error) {
	err = s.Session.Wait()
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return exit.Code, nil
	}
	return answer(s.instance, 0, err)
}
