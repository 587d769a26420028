// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// DefaultWorkers is the default of [Options.Workers].
const DefaultWorkers = 4

// Options configure the controller.
type Options struct {
	// Managed: hosts are set up. Otherwise none is; those that were before, by a controller
	// that did, are cleaned when they go all the same.
	Managed bool
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 two events of one
	// reason are one that happened twice, with the note of the first. Required.
	Recorder record.EventRecorder
	// Workers is how many instances are decided about at the same time. Workers never wait
	// for a host, so a few are enough. Default [DefaultWorkers].
	Workers int
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer

	// clock is set in tests.
	clock clock.PassiveClock
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Recorder == nil {
		errs = append(errs, errors.New("Recorder is required"))
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("Workers is %d, which is less than 1", o.Workers))
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return o, errors.Join(errs...)
}
