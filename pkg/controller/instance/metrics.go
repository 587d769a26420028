// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// metrics counts probes.
type metrics struct {
	probes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics returns metrics that are registered, with gauges of the lanes of p.
func newMetrics(registerer prometheus.Registerer, p *prober) *metrics {
	with := promauto.With(registerer)
	for _, l := range []lane{laneFast, laneSlow} {
		labels := prometheus.Labels{"lane": string(l)}
		with.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "windows_instance_probes_running", Help: "Probes of hosts that are under way.", ConstLabels: labels,
		}, func() float64 { running, _ := p.load(l); return float64(running) })
		with.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "windows_instance_probes_waiting", Help: "Probes of hosts that wait for a worker.", ConstLabels: labels,
		}, func() float64 { _, waiting := p.load(l); return float64(waiting) })
	}
	return &metrics{
		probes: with.NewCounterVec(prometheus.CounterOpts{
			Name: "windows_instance_probes_total",
			Help: "Probes of hosts that ended, by result: Healthy, Findings, HostKeyRecorded, DuplicateHost, or the reason of the condition that failed.",
		}, []string{"result"}),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windows_instance_probe_duration_seconds",
			Help:    "How long a probe of a host took once it had begun, by whether it failed.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120},
		}, []string{"failed"}),
	}
}

// resultOf is the label of a probe. The number of its values is bounded.
func resultOf(o *observation, instance *v1alpha1.WindowsInstance) string {
	switch o.outcome() {
	case outcomeHealthy:
		return "Healthy"
	case outcomeRecorded:
		return eventHostKeyRecorded
	case outcomeAttention:
		switch {
		case o.duplicate:
			return v1alpha1.ReasonDuplicateHost
		case o.unconfirmed:
			return v1alpha1.ReasonHostKeyUnconfirmed
		case o.unheld:
			return v1alpha1.ReasonLoggedIn
		}
		return v1alpha1.ReasonFindings
	}
	if diagnose.IsInconclusive(o.err) {
		return "NotConcluded"
	}
	return classify(o.failed, o.err, instance).Reason
}
