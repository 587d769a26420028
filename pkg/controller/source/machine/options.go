// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import "k8s.io/client-go/tools/record"

// Options configure the controllers.
type Options struct {
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
}
