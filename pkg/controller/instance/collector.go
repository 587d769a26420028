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

// collectTimeout bounds the wait for a cache that is not filled yet.
const collectTimeout = 5 * time.Second

// fleetMetric is a metric of all instances as they are when it is asked for.
type fleetMetric struct {
	desc *prometheus.Desc
	// collect sends what there is of the instances, which it must not change.
	collect func(instances []v1alpha1.WindowsInstance, to chan<- prometheus.Metric)
}

// fleetMetrics are those that there are.
var fleetMetrics = []fleetMetric{phases, notReady, activeOperations, pendingUpdates}

// collector lists the instances once for all of its metrics, when it is asked.
type collector struct {
	cache   client.Reader
	metrics []fleetMetric
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector. It says nothing as long as the cache is not filled.
func (c collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var instances v1alpha1.WindowsInstanceList
	if err := c.cache.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for _, m := range c.metrics {
		m.collect(instances.Items, to)
	}
}
