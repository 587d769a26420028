// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// metrics counts probes.
type metrics struct {
	probes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics() *metrics {
	return &metrics{
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "windows_instance_probes_total",
			Help: "Looks at hosts that ended, by result: Healthy, Findings, HostKeyRecorded, DuplicateHost, or the reason of the condition that failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windows_instance_probe_duration_seconds",
			Help:    "How long a look at a host took once it had begun, by whether it failed.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120},
		}, []string{"failed"}),
	}
}

// register adds the metrics, and gauges of the lanes of p, to a registry.
func (m *metrics) register(r prometheus.Registerer, p *prober) error {
	collectors := []prometheus.Collector{m.probes, m.duration}
	for _, l := range []lane{laneFast, laneSlow} {
		labels := prometheus.Labels{"lane": string(l)}
		collectors = append(collectors,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "windows_instance_probes_running", Help: "Looks at hosts that are under way.", ConstLabels: labels,
			}, func() float64 { running, _ := p.load(l); return float64(running) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "windows_instance_probes_waiting", Help: "Looks at hosts that wait for a worker.", ConstLabels: labels,
			}, func() float64 { _, waiting := p.load(l); return float64(waiting) }))
	}
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the instance controller: %w", err)
		}
	}
	return nil
}

// resultOf is the label of a probe. The number of its values is bounded.
func resultOf(o *observation, instance *v1alpha1.WindowsInstance) string {
	switch o.outcome() {
	case outcomeHealthy:
		return "Healthy"
	case outcomeRecorded:
		return eventHostKeyRecorded
	case outcomeAttention:
		if o.duplicate {
			return v1alpha1.ReasonDuplicateHost
		}
		return v1alpha1.ReasonFindings
	}
	if diagnose.IsInconclusive(o.err) {
		return "NotConcluded"
	}
	return classify(o.failed, o.err, instance).reason
}
