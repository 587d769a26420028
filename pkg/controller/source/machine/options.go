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
	// UserDataCurrent says whether the hosts of new Machines authorize the key that is in use. As long as they do
	// not, no Machine is replaced. Required.
	UserDataCurrent func(context.Context) (bool, error)
}
