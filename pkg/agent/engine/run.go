// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// RunOptions are how a host is kept as it is.
type RunOptions struct {
	// Service is the name of the service that this process is. It is left alone.
	Service string
	// Every is the time between two looks. Zero: one minute.
	Every time.Duration
	// Report gets what others changed, and every failure to look, once. Nil: nobody.
	Report func(api.Drift)
}

// Run keeps the host at the last document that was applied completely, until ctx ends, and
// rotates the logs that the document says. It does nothing while a document is being applied, or did not get to its end: then the
// host is on its way to another state. It returns nil.
func (e *Engine) Run(ctx context.Context, o RunOptions) error {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	k := &keeper{Engine: e, options: o, observer: observer{system: e.System, digests: map[string]fileObservation{}}}
	for {
		k.look(ctx)
		if err := e.sleep(ctx, o.Every); err != nil {
			return nil //nolint:nilerr // the end of ctx is the end that was asked for
		}
	}
}
