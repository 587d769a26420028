// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/record"
)

// Defaults of [Options].
const (
	DefaultWorkers      = 4
	DefaultPollInterval = 30 * time.Second
)

// Options configure the controllers.
type Options struct {
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Workers is how many Machines, and how many MachineSets, are worked on at the
	// same time. Default [DefaultWorkers].
	Workers int
	// PollInterval is how often it is checked whether the Machine API is installed, as long
	// as it is not. Default [DefaultPollInterval].
	PollInterval time.Duration
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
	if o.PollInterval == 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("PollInterval is %s, which is negative", o.PollInterval))
	}
	return o, errors.Join(errs...)
}
