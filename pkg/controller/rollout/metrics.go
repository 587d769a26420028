// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// register adds gauges of disruption slots to a registry.
func register(to prometheus.Registerer, disruptions *Slots) error {
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "windows_instance_disruptions_running", Help: "Hosts whose Node is out of service because of their configuration.",
		}, func() float64 { held, _ := disruptions.Load(); return float64(held) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "windows_instance_disruptions_waiting", Help: "Hosts that wait for their turn to be taken out of service because of their configuration.",
		}, func() float64 { _, waiting := disruptions.Load(); return float64(waiting) }),
	} {
		if err := to.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the pool controller: %w", err)
		}
	}
	return nil
}
