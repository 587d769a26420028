// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"

	"k8s.io/client-go/tools/record"
)

// Options configure the controllers.
type Options struct {
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// UserDataOutdated says why the hosts of new Machines would not authorize the key that is in use, or why nobody knows: a
	// clause. As long as it is not empty, no Machine is replaced. Required.
	UserDataOutdated func(context.Context) (string, error)
}
