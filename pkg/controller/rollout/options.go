// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultWorkers is the default of [Options.Workers].
const DefaultWorkers = 2

// Options configure the controller.
type Options struct {
	// Disruptions are the slots that metrics are about. Required with Registerer.
	Disruptions *Slots
	// Workers is how many pools are worked on at the same time. Default [DefaultWorkers].
	Workers int
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Registerer != nil && o.Disruptions == nil {
		errs = append(errs, errors.New("Disruptions is required"))
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("Workers is %d, which is less than 1", o.Workers))
	}
	return o, errors.Join(errs...)
}
