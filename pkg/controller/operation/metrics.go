// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// metrics counts operations.
type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics returns metrics that are registered, with gauges of r.
func newMetrics(registerer prometheus.Registerer, r *runner) *metrics {
	with := promauto.With(registerer)
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_operations_running", Help: "Operations that run.",
	}, func() float64 { running, _ := r.load(); return float64(running) })
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "windows_instance_operations_waiting", Help: "Operations that wait for a worker.",
	}, func() float64 { _, waiting := r.load(); return float64(waiting) })
	labels := []string{"type", "phase"}
	m := &metrics{
		total: with.NewCounterVec(prometheus.CounterOpts{
			Name: "windows_instance_operations_total",
			Help: "Operations that ended, by type and by how: Succeeded, Failed or Canceled.",
		}, labels),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "windows_instance_operation_duration_seconds",
			Help:    "How long operations took from when they were begun, interruptions included.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200},
		}, labels),
	}
	// A counter that begins with 1 has increased by nothing, as far as Prometheus knows.
	for _, t := range operationTypes {
		for _, phase := range []v1alpha1.OperationPhase{v1alpha1.OperationSucceeded, v1alpha1.OperationFailed, v1alpha1.OperationCanceled} {
			m.total.WithLabelValues(string(t), string(phase))
		}
	}
	return m
}

// operationTypes are those that there are.
var operationTypes = []v1alpha1.OperationType{
	v1alpha1.OperationDrain, v1alpha1.OperationUncordon, v1alpha1.OperationReboot, v1alpha1.OperationReconfigure, v1alpha1.OperationAdopt,
	v1alpha1.OperationRelease, v1alpha1.OperationRestartServices, v1alpha1.OperationRemove,
}

// ended counts an operation.
func (m *metrics) ended(op *v1alpha1.Operation, now time.Time) {
	labels := []string{string(op.Type), string(op.Phase)}
	m.total.WithLabelValues(labels...).Inc()
	if op.StartedAt != nil {
		m.duration.WithLabelValues(labels...).Observe(now.Sub(op.StartedAt.Time).Seconds())
	}
}
