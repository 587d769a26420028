// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/hostagent"
)

// Hosts is what operations need of the way to hosts. Its methods are called
// concurrently, with objects that nobody changes meanwhile, and end with their context.
// All of them verify the host key of the host.
type Hosts interface {
	// Login authenticates and opens a session.
	Login(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) error
	// Facts has our agent look at the host, after putting the agent there if need be.
	Facts(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) (*hostagent.Facts, error)
	// Check tries the way to the host layer by layer and judges whether the host is fit
	// to be a node. It changes nothing there.
	Check(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) *windowsv1alpha1.WindowsInstanceCheckStatus
	// BootID says which boot the host is in. It is cheap.
	BootID(ctx context.Context, instance *windowsv1alpha1.WindowsInstance) (string, error)
	// Restart restarts the host if it still is in the boot that the request names.
	// Otherwise it has been restarted, and the answer says so.
	Restart(ctx context.Context, instance *windowsv1alpha1.WindowsInstance, request hostagent.RestartRequest) (hostagent.RestartAnswer, error)
	// EnsureRoutes makes sure that routes exist, and returns those that were missing.
	EnsureRoutes(ctx context.Context, instance *windowsv1alpha1.WindowsInstance, routes []hostagent.Route) (changed []hostagent.Route, err error)
	// Revision names the agent that is put on hosts: its version for people, and the
	// beginning of its SHA-256 digest.
	Revision() (version, revision string)
	// Forget closes the connections to the host, and has the agent on it verified anew.
	Forget(instance *windowsv1alpha1.WindowsInstance)
}
