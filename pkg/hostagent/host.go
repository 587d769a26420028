// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostagent

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/hostagent/logs"
)

// Host is the operating system as the agent needs it. Package platform has the
// real ones. A stand-in may embed one of those and replace single methods.
// Implementations must be safe for concurrent use.
type Host interface {
	// Host is what the log engine needs: the directory of the logs, the
	// clock, the boot times and the event log.
	logs.Host

	// Executable is the path of the agent's own executable, in the form that
	// [os.Open] understands.
	Executable() (string, error)

	// Facts collects what is known about the host. It never fails as a
	// whole: what could not be read is listed in [Facts.Errors]. The caller
	// sets [Facts.Agent].
	Facts(ctx context.Context) *Facts
}
