// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/logs"
)

// Host is the operating system as the agent needs it. Package windows has the
// real one. A stand-in may embed one of those and replace single methods.
// Implementations must be safe for concurrent use.
type Host interface {
	// Host is what the log engine needs: the directory of the logs, the
	// clock, the boot times and the event log.
	logs.Host

	// Executable is the path of the agent's own executable, in the form that
	// [os.Open] understands.
	Executable() (string, error)

	// Facts collects what is known about the host. It never fails as a
	// whole: what could not be read is listed in [api.Facts.Errors]. The caller
	// sets [api.Facts.Agent].
	Facts(ctx context.Context) *api.Facts

	// Details adds to the facts what takes longer to find out and only somebody who looks
	// at a host wants to know: certificates and networks for pods.
	Details(ctx context.Context, f *api.Facts)

	// Boot reports when the host was started, and which boot it is. It is cheap.
	Boot(ctx context.Context) (api.BootFacts, error)

	// Restart requests a restart of the host from the operating system, and returns when
	// it has agreed. The host goes down a moment later, so that there is time to answer. A
	// second request while the host is going down is no error. The boot of the request is
	// the present one.
	Restart(ctx context.Context, r api.RestartRequest) error

	// EnsureRoute makes sure that packets to a destination take the route, and says
	// whether it had to be made or changed. It lasts until the host is restarted.
	EnsureRoute(ctx context.Context, r api.Route) (changed bool, err error)

	// System is the host as it is configured.
	System() System

	// Serve calls run as a service of the operating system, if that is what started the
	// process, and else just calls it. The context that run gets ends with ctx and when the
	// service is to stop.
	Serve(ctx context.Context, run func(context.Context) error) error

	// ReportDrift tells whoever watches the host's events that it did not have its desired configuration.
	ReportDrift(message string) error
}
