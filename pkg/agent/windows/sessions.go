// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Errors of winerror.h with which Windows refuses a restart that is not forced because of a session.
const (
	errUsersLoggedOn = syscall.Errno(1191) // ERROR_SHUTDOWN_USERS_LOGGED_ON
	errMachineLocked = syscall.Errno(1271) // ERROR_MACHINE_LOCKED
)

// restartWithSessions requests a restart. When Windows refuses it because of sessions that are only
// disconnected, it is forced. People who are connected are named in the error.
func restartWithSessions(force bool, initiate func(force bool) error, sessions func() ([]api.Session, error)) error {
	err := initiate(force)
	if force || !errors.Is(err, errUsersLoggedOn) && !errors.Is(err, errMachineLocked) {
		return err
	}
	list, listErr := sessions()
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	if names := api.AtWork(list); len(names) > 0 {
		return fmt.Errorf("these people are logged on: %s: %w", strings.Join(names, ", "), err)
	}
	return initiate(true)
}
