// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import "github.com/prometheus/client_golang/prometheus"

// Options configure the controller.
type Options struct {
	// Disruptions are the slots that metrics are about. Required.
	Disruptions *Slots
	// Registerer takes the metrics. Nil: there are none.
	Registerer prometheus.Registerer
}
