// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
)

// Options configure the controller.
type Options struct {
	// Managed: hosts are configured. Otherwise none is; those that were before, by a controller
	// that did, are cleaned when they go all the same.
	Managed bool
	// Recorder takes the events. It is that of core/v1: in events.k8s.io/v1 two events of one
	// reason are one that happened twice, with the note of the first. Required.
	Recorder record.EventRecorder
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
