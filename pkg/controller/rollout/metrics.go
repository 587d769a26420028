// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register adds gauges of disruption slots to a registry.
func register(to prometheus.Registerer, disruptions *Slots) {
	promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_disruptions_running", Help: "Hosts whose Node is out of service because of their configuration.",
	}, func() float64 { held, _ := disruptions.Load(); return float64(held) })
	promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_disruptions_waiting", Help: "Hosts that wait for a disruption slot because of their configuration.",
	}, func() float64 { _, waiting := disruptions.Load(); return float64(waiting) })
}
