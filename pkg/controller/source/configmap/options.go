// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// LookupFunc returns the IP addresses of a DNS name. It must return when ctx ends
// and be safe for concurrent use.
type LookupFunc func(ctx context.Context, name string) ([]netip.Addr, error)

// Options configure the controller.
type Options struct {
	// Recorder takes the events. Required by [SetupWithManager].
	Recorder record.EventRecorder
	// Namespace of the ConfigMap, and of what is made from it. Default
	// openshift-windows-machine-config-operator.
	Namespace string
	// Name of the ConfigMap. Default windows-instances.
	Name string
	// RemoveWithoutConfirmation removes all hosts at once when the ConfigMap is
	// deleted or emptied, as the Windows Machine Config Operator does. Default: ask first.
	RemoveWithoutConfirmation bool
	// Lookup resolves DNS names. It is only used to find entries that are one host.
	// Default: the resolver of the system.
	Lookup LookupFunc
	// LookupTimeout bounds one lookup. Default 5 seconds.
	LookupTimeout time.Duration
	// LookupInterval is the time after which a name is looked up again. Default 3 minutes.
	LookupInterval time.Duration
	// LookupWorkers is how many names are looked up at the same time. Default 16.
	LookupWorkers int
}

// complete fills in the defaults, or says what is wrong.
func (o Options) complete() (Options, error) {
	if o.Recorder == nil {
		return o, errors.New("Recorder is required")
	}
	return o.withDefaults(), nil
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = wmco.Namespace
	}
	if o.Name == "" {
		o.Name = wmco.InstancesConfigMap
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if o.LookupTimeout <= 0 {
		o.LookupTimeout = 5 * time.Second
	}
	if o.LookupInterval <= 0 {
		o.LookupInterval = 3 * time.Minute
	}
	if o.LookupWorkers <= 0 {
		o.LookupWorkers = 16
	}
	return o
}
