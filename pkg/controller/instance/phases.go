// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// phasesTimeout bounds the wait for a cache that is not filled yet.
const phasesTimeout = 5 * time.Second

var phasesDesc = prometheus.NewDesc("windows_instances", "WindowsInstances by namespace and phase.", []string{"namespace", "phase"}, nil)

// phases counts instances when it is asked.
type phases struct{ cache client.Reader }

// Describe implements prometheus.Collector.
func (phases) Describe(to chan<- *prometheus.Desc) { to <- phasesDesc }

// Collect implements prometheus.Collector. It says nothing as long as the cache is not filled.
func (p phases) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), phasesTimeout)
	defer cancel()
	var instances v1alpha1.WindowsInstanceList
	if err := p.cache.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	type group struct{ namespace, phase string }
	count := map[group]float64{}
	for i := range instances.Items {
		count[group{instances.Items[i].Namespace, string(instances.Items[i].Status.Phase)}]++
	}
	for g, n := range count {
		to <- prometheus.MustNewConstMetric(phasesDesc, prometheus.GaugeValue, n, g.namespace, g.phase)
	}
}
