// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// Host is the operating system as the agent needs it. Package windows has the
// real one. A stand-in may embed it and replace single methods.
// Implementations must be safe for concurrent use.
type Host interface {
	// Host is what the log engine needs: the directory of the logs, the
	// clock, the boot times and the event log.
	logs.Host

	// Executable is the path of the agent's own executable, in the form that
	// [os.Open] understands.
	Executable() (string, error)

	// MachineID tells the machine from others, see [api.Version]. Empty: it cannot be read.
	MachineID() string

	// Facts collects what is known about the host. It never fails as a
	// whole: what could not be read is listed in [api.Facts.Errors]. The caller
	// sets [api.Facts.Agent].
	Facts(ctx context.Context) *api.Facts

	// Details adds to the facts what takes longer to collect and only people need who inspect a
	// host: certificates and networks for pods.
	Details(ctx context.Context, f *api.Facts)

	// Boot returns when the host was started, and the identity of this boot. It is cheap.
	Boot(ctx context.Context) (api.BootFacts, error)

	// Restart requests a restart of the host from the operating system, and returns when
	// it has agreed. The host goes down a moment later, so that there is time to answer. A
	// second request while the host is going down is no error. The boot of the request is
	// the present one.
	Restart(ctx context.Context, r api.RestartRequest) error

	// EnsureRoute makes packets to a destination take the route, and reports whether it had to
	// be created or changed. It lasts until the host is restarted.
	EnsureRoute(ctx context.Context, r api.Route) (changed bool, err error)

	// KeyFiles are the paths of the files from which sshd takes the public keys of the user of this process
	// unless its configuration was changed. The first is where they belong; there is at least one.
	KeyFiles() ([]string, error)

	// System is the host as it is configured.
	System() System

	// Serve calls run as a service of the operating system, if the process was started as one,
	// and otherwise just calls it. The context of run ends with ctx and when the service is to
	// stop.
	Serve(ctx context.Context, run func(context.Context) error) error

	// Updates is the Windows Update Agent.
	Updates() updates.Source

	// ReportDrift writes an event that the host differed from its desired configuration, or about what went wrong in the service.
	ReportDrift(message string) error
}
