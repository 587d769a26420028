// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// DefaultPatience is the default of [Options.Patience].
const DefaultPatience = 10 * time.Second

// Resolver looks up names in DNS. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns the addresses of a name. Network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

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
	// Resolver confirms names of Nodes. Default [net.DefaultResolver].
	Resolver Resolver
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
