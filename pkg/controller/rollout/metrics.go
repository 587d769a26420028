// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register adds gauges of hosts that are disturbed to a registry.
func register(to prometheus.Registerer, s *Scheduler) {
	promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_disruptions_running", Help: "Hosts that have a slot for disruptions: they are drained, restarted, repaired or removed.",
	}, func() float64 { held, _ := s.load(); return float64(held) })
	promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_disruptions_waiting", Help: "Hosts that wait for a slot for disruptions.",
	}, func() float64 { _, waiting := s.load(); return float64(waiting) })
}
