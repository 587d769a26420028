// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// RunOptions configure [Engine.Run].
type RunOptions struct {
	// Service is the name of the service that this process is. It is not touched.
	Service string
	// Managers are services of other programs that configure the host. While one of them is there nothing is repaired: whoever has
	// installed it has the host now, and two would undo each other's work.
	Managers []string
	// Every is the time between two inspections. Zero: one minute. It is shorter while services wait for a network that another one makes.
	Every time.Duration
	// Report gets each drift and each failure once. Nil: they are dropped.
	Report func(api.Drift)
	// EnsureRoute makes packets to a destination take a route, and reports whether it had to
	// change anything. Nil: the routes of documents are not made.
	EnsureRoute func(ctx context.Context, r api.Route) (changed bool, err error)
	// KeepKeys replaces keys once more that somebody has authorized again, and returns the files that it changed. Nil: nothing
	// does.
	KeepKeys func() (changed []api.Item, err error)
}

// soon is the time to the next inspection while services wait for a network that another service makes, as after each boot, and soonAtMost for
// how many inspections in a row: for five minutes. The network comes within one.
const (
	soon       = 5 * time.Second
	soonAtMost = 60
)

// Run repairs the host until ctx ends, according to the last document that was applied
// completely, rotates the logs in it, makes its routes, and keeps the keys that may log in. It does nothing while a document is being applied, and
// repairs nothing after one was not applied completely. It returns nil.
func (e *Engine) Run(ctx context.Context, o RunOptions) error {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	k := newKeeper(e, o)
	for inARow := 0; ; {
		k.check(ctx)
		pause := o.Every
		switch {
		case !k.awaits:
			inARow = 0
		case inARow < soonAtMost:
			inARow++
			pause = min(pause, soon)
		}
		if err := e.sleep(ctx, pause); err != nil {
			return nil //nolint:nilerr // the end of ctx is no error
		}
	}
}
