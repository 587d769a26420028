// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Defaults of [Options].
const (
	DefaultConcurrentProbes     = 64
	DefaultConcurrentSlowProbes = 32
	DefaultProbeTimeout         = 4 * time.Minute
	DefaultRecheckInterval      = defaultRecheck
	DefaultWorkers              = 4

	// defaultPatience is longer than a login to a host that is well takes, also over
	// a slow network, and shorter than a connection that is not answered.
	defaultPatience = 3 * time.Second
)

// Options configure the controller. A zero field has the default that its comment names.
type Options struct {
	// Hosts is the way to hosts. Required.
	Hosts Hosts
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 two events of one
	// reason are one that happened twice, with the note of the first. Required.
	Recorder record.EventRecorder
	// Namespace is that of the operator: of two instances of the same host, one in this
	// namespace stands for it. Required.
	Namespace string
	// Desired says the desired configuration of hosts. Nil: hosts are watched and not set up.
	Desired Desired
	// Changed has a value, whatever it is, each time that the answers of Desired may have
	// changed for all hosts. Nil: they change with instances, pools and Nodes alone.
	Changed <-chan event.GenericEvent
	// ConcurrentProbes is how many hosts that are new or answered last time are looked
	// at at the same time. Default [DefaultConcurrentProbes].
	ConcurrentProbes int
	// ConcurrentSlowProbes is the same for hosts that did not answer in time last
	// time. Default [DefaultConcurrentSlowProbes].
	ConcurrentSlowProbes int
	// ProbeTimeout bounds one look at a host, with the transfer of the agent if it is
	// not there. Default [DefaultProbeTimeout].
	ProbeTimeout time.Duration
	// RecheckInterval is how often a host with which all is well is looked at, give or
	// take a fifth. Default [DefaultRecheckInterval].
	RecheckInterval time.Duration
	// Workers is how many instances are reconciled at the same time. Workers never wait for
	// a host, so a few are enough. Default [DefaultWorkers].
	Workers int
	// Registerer takes the metrics. Default: there are none.
	Registerer prometheus.Registerer

	// clock and patience are set in tests. patience is after how long a probe gives
	// its place in the fast lane back.
	clock    clock.WithDelayedExecution
	patience time.Duration
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Hosts == nil {
		errs = append(errs, errors.New("Hosts is required"))
	}
	if o.Recorder == nil {
		errs = append(errs, errors.New("Recorder is required"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("Namespace is required"))
	}
	setDefault(&o.ConcurrentProbes, DefaultConcurrentProbes)
	setDefault(&o.ConcurrentSlowProbes, DefaultConcurrentSlowProbes)
	setDefault(&o.ProbeTimeout, DefaultProbeTimeout)
	setDefault(&o.RecheckInterval, DefaultRecheckInterval)
	setDefault(&o.Workers, DefaultWorkers)
	setDefault(&o.patience, defaultPatience)
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	for name, n := range map[string]int{"ConcurrentProbes": o.ConcurrentProbes, "ConcurrentSlowProbes": o.ConcurrentSlowProbes, "Workers": o.Workers} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, which is less than 1", name, n))
		}
	}
	for name, d := range map[string]time.Duration{"ProbeTimeout": o.ProbeTimeout, "RecheckInterval": o.RecheckInterval} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s, which is negative", name, d))
		}
	}
	return o, errors.Join(errs...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
