// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"errors"
	"net"

	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
)

// Options configure the controller.
type Options struct {
	// Version is the release that hosts are configured by, as in the name of the
	// ConfigMap windows-services-<version>. Required.
	Version string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Resolver confirms names of Nodes. Default [net.DefaultResolver].
	Resolver identity.Resolver
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Version == "" {
		errs = append(errs, errors.New("Version is required"))
	}
	if o.Recorder == nil {
		errs = append(errs, errors.New("Recorder is required"))
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return o, errors.Join(errs...)
}
