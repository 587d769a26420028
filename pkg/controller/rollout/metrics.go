// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
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

// conditionsTimeout bounds the wait for a cache that is not filled yet.
const conditionsTimeout = 5 * time.Second

// conditionsDesc has the labels that kube-state-metrics gives conditions, and the reason: what was stopped and what waits for a confirmation are both
// degraded.
var conditionsDesc = prometheus.NewDesc("windows_pool_condition",
	"Conditions of WindowsNodePools as they are: status is true, false or unknown, and the value is 1.",
	[]string{"namespace", "pool", "condition", "status", "reason"}, nil)

// poolConditions shows, when it is asked, the conditions of pools.
type poolConditions struct{ cache client.Reader }

// Describe implements prometheus.Collector.
func (poolConditions) Describe(to chan<- *prometheus.Desc) { to <- conditionsDesc }

// Collect implements prometheus.Collector. It says nothing as long as the cache is not filled.
func (c poolConditions) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), conditionsTimeout)
	defer cancel()
	var pools v1alpha1.WindowsNodePoolList
	if err := c.cache.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range pools.Items {
		for _, is := range pools.Items[i].Status.Conditions {
			to <- prometheus.MustNewConstMetric(conditionsDesc, prometheus.GaugeValue, 1,
				pools.Items[i].Namespace, pools.Items[i].Name, is.Type, strings.ToLower(string(is.Status)), is.Reason)
		}
	}
}
