// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// DefaultInterval is the default of [Options.Interval].
const DefaultInterval = time.Minute

// Source knows what is to be published.
type Source interface {
	// Published returns the services of hosts as the cluster asks for them now. The
	// error says what of the cluster is missing.
	Published(ctx context.Context) (*document.PublishedServices, error)
}

// Options configure the controller.
type Options struct {
	// Source of what is published. Required.
	Source Source
	// Namespace of the operator. Required.
	Namespace string
	// Version to publish under: [Version] of the release. Required.
	Version string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Interval is how often Source is asked without anything having changed that is
	// watched: what the services follow from is all over the cluster. Default
	// [DefaultInterval].
	Interval time.Duration
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	for name, missing := range map[string]bool{"Source": o.Source == nil, "Namespace": o.Namespace == "", "Recorder": o.Recorder == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("%s is required", name))
		}
	}
	if problems := validation.IsDNS1123Subdomain(document.ServicesConfigMapPrefix + o.Version); len(problems) > 0 || o.Version == "" {
		errs = append(errs, fmt.Errorf("version %q cannot be the end of a name", o.Version))
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	return o, errors.Join(errs...)
}
