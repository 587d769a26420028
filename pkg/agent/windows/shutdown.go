// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Errors of winerror.h with which Windows answers a request to shut down when there is one already.
const (
	errShutdownInProgress = syscall.Errno(1115) // ERROR_SHUTDOWN_IN_PROGRESS
	errShutdownScheduled  = syscall.Errno(1190) // ERROR_SHUTDOWN_IS_SCHEDULED
)

// ourShutdownBegins is after which time a shutdown of ours is in progress, on a busy host as well.
const ourShutdownBegins = 5 * api.RestartNotice

// initiateShutdown requests a restart. A shutdown that is scheduled already may be an earlier request
// of ours, which begins soon. When it does not, it belongs to others, who may want it tomorrow, and
// to switch the host off. Once one is in progress nobody can tell: the caller waits until the host
// is back.
func initiateShutdown(sleep func(time.Duration), initiate func() error) error {
	err := initiate()
	if errors.Is(err, errShutdownScheduled) {
		sleep(ourShutdownBegins)
		err = initiate()
	}
	switch {
	case errors.Is(err, errShutdownInProgress):
		return nil
	case errors.Is(err, errShutdownScheduled):
		return fmt.Errorf("another shutdown of the host is scheduled; the host can be restarted when that has happened, or was canceled on the host with \"shutdown /a\": %w", err)
	}
	return err
}
