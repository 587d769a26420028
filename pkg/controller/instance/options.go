// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Defaults of [Options].
const (
	DefaultConcurrentProbes     = 64
	DefaultConcurrentSlowProbes = 32
	DefaultProbeTimeout         = 4 * time.Minute
	DefaultRecheckInterval      = 5 * time.Minute
)

// Options configure the controller. Numbers and times are positive.
type Options struct {
	// Hosts is the way to hosts. Required.
	Hosts Hosts
	// Rotations says when hosts get another key. Required.
	Rotations Rotations
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 two events of one
	// reason are one that happened twice, with the note of the first. Required.
	Recorder record.EventRecorder
	// Namespace is that of the operator: of two instances of the same host, one in this
	// namespace stands for it. Required.
	Namespace string
	// Desired says the desired configuration of hosts. Nil: hosts are watched and not configured.
	Desired Desired
	// Changed has a value, whatever it is, each time that the answers of Desired may have
	// changed for all hosts. Nil: they change with instances, pools and Nodes alone.
	Changed <-chan event.GenericEvent
	// UpdateBlockedBy says what keeps the host of an instance from being updated, empty if nothing does or it waits for its turn. It reports false
	// as long as that is not known. Nil: nobody updates hosts.
	UpdateBlockedBy func(instance *v1alpha1.WindowsInstance) (text string, known bool)
	// UpdateBlockedByChanged has the instances of which UpdateBlockedBy says something else. Nil: it does not.
	UpdateBlockedByChanged <-chan event.GenericEvent
	// NodeSettled says whether a Node has the labels and taints that are desired. Nil: nobody writes them.
	NodeSettled NodeSettledFunc
	// ConcurrentProbes is how many hosts that are new or answered last time are looked
	// at at the same time. Usually [DefaultConcurrentProbes].
	ConcurrentProbes int
	// ConcurrentSlowProbes is the same for hosts that did not answer in time last
	// time. Usually [DefaultConcurrentSlowProbes].
	ConcurrentSlowProbes int
	// ProbeTimeout bounds one probe of a host, with the transfer of the agent if it is
	// not there. Usually [DefaultProbeTimeout].
	ProbeTimeout time.Duration
	// RecheckInterval is how often a host with which all is well is probed, give or
	// take a fifth; in fleets of which that would be more than ten hosts a second, ten a second are. Usually [DefaultRecheckInterval].
	RecheckInterval time.Duration
	// Registerer takes the metrics. Default: there are none.
	Registerer prometheus.Registerer
}
