// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var phasesDesc = prometheus.NewDesc("windows_instances", "WindowsInstances by namespace and phase.", []string{"namespace", "phase"}, nil)

var phases = fleetMetric{phasesDesc, collectPhases}

// collectPhases counts instances by their phase.
func collectPhases(instances []v1alpha1.WindowsInstance, to chan<- prometheus.Metric) {
	type group struct{ namespace, phase string }
	count := map[group]float64{}
	for i := range instances {
		count[group{instances[i].Namespace, string(instances[i].Status.Phase)}]++
	}
	for g, n := range count {
		to <- prometheus.MustNewConstMetric(phasesDesc, prometheus.GaugeValue, n, g.namespace, g.phase)
	}
}
