// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

// DefaultPatience is the default of [Options.Patience].
const DefaultPatience = 10 * time.Second

// Options configure the controller.
type Options struct {
	// Kube approves requests. Required.
	Kube kubernetes.Interface
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Patience is how old a request must be before it is told that it is refused. A
	// node that just joined asks before its instance knows of its Node, and where others
	// approve requests too, they need a moment. Default [DefaultPatience].
	Patience time.Duration
	// Bootstrappers returns the users that the host of an instance may ask for its first
	// client certificate as: those whose credentials it was given and that are still
	// valid. It is asked only about requests of such users that are about the instance.
	// Nil: there are none, and no host joins.
	Bootstrappers func(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]string, error)
	// Resolver confirms names of Nodes. Default [net.DefaultResolver].
	Resolver identity.Resolver
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer

	// clock is set in tests.
	clock clock.PassiveClock
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Kube == nil {
		errs = append(errs, errors.New("Kube is required"))
	}
	if o.Recorder == nil {
		errs = append(errs, errors.New("Recorder is required"))
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Patience < 0 {
		errs = append(errs, fmt.Errorf("Patience is %s, which is less than nothing", o.Patience))
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}
	return o, errors.Join(errs...)
}
