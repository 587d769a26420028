// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// WantedFunc says whether the source of an instance that was deleted asks for its host again, so
// that an instance of that name follows when this one is gone.
type WantedFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance) (bool, error)

// DefaultMissingNamespaceTimeout is time for somebody to create a namespace again that a restore has lost.
const DefaultMissingNamespaceTimeout = time.Hour

// Options configure the controller.
type Options struct {
	// Managed: hosts are configured. Otherwise none is; those that were before, by a controller
	// that did, are cleaned when they go all the same.
	Managed bool
	// MaxRemovals is how many hosts of a pool may be removed within RemovalWindow before somebody
	// confirms it: a number, or a percentage of its hosts that allows at least one. Required.
	MaxRemovals intstr.IntOrString
	// RemovalWindow is the time that MaxRemovals is about. Required.
	RemovalWindow time.Duration
	// RemoveWithoutConfirmation removes the host of every instance that is deleted at once.
	// Default: ask first when they are more than MaxRemovals.
	RemoveWithoutConfirmation bool
	// MissingNamespaceTimeout is for how long instances and pools stay whose namespace does not exist. 0: they go at once.
	// Usually [DefaultMissingNamespaceTimeout].
	MissingNamespaceTimeout time.Duration
	// Wanted says whether the source of an instance that was deleted asks for its host again.
	// Nil: no source does.
	Wanted WantedFunc
	// MachineLeaving says whether the Machine that an instance comes from is being deleted and still there. Nil: no instance comes from one.
	MachineLeaving func(ctx context.Context, instance *v1alpha1.WindowsInstance) (bool, error)
	// Leads says whether this process still is the one that works, by what is in the cluster. It is asked before the removal of a host is
	// recorded: how many may be removed counts for all of them. Nil: no other one can.
	Leads func(ctx context.Context) (bool, error)
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 two events of one
	// reason are one that happened twice, with the note of the first. Required.
	Recorder record.EventRecorder
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
