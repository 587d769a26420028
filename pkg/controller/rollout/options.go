// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// UpdateFunc says whether a host that works as a node is to get another configuration, and from when on it may.
// pool is that of its instance, nil if there is none. It depends on nothing else.
type UpdateFunc func(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (due time.Time, ok bool)

// Options configure the controllers.
type Options struct {
	// Disruptions is how many hosts of all pools may be drained, restarted or removed at the same time, unless a person
	// has asked for it. Usually [DefaultDisruptions].
	Disruptions int
	// RemoveWithoutConfirmation has no removal wait for other hosts.
	RemoveWithoutConfirmation bool
	// Leads says whether this process still is the one that works, by what is in the cluster. It is asked before hosts get slots: of two processes
	// each would give its own. Nil: no other one can.
	Leads func(ctx context.Context) (bool, error)
	// Update says which hosts are to be updated. Required.
	Update UpdateFunc
	// Retried says which hosts that do not work are configured by themselves, now or in a while. Nil: none is.
	Retried func(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) bool
	// Impact asks a host what its update costs. Required.
	Impact ImpactFunc
	// Keys says which keys hosts are to accept. Required.
	Keys KeysFunc
	// KeysChanged says when that may have changed. Required.
	KeysChanged <-chan event.GenericEvent
	// Payload is what new hosts are to get. It reports false while that is not known. Nil: hosts get none.
	Payload func() (document.Payload, bool)
	// GoesBack says why hosts must not go back to programs that they had, empty if they may, and whether the controller can send all
	// of them. It reports false for ok while that is not known. Nil: they may, and it can.
	GoesBack func(document.Payload) (why string, ships, ok bool)
	// Changed says when the results of Payload or GoesBack may have changed. Nil: they do not.
	Changed <-chan event.GenericEvent
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
