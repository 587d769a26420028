// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

var pendingUpdatesDesc = prometheus.NewDesc("windows_instances_updates_pending",
	"WindowsInstances whose hosts wait for updates of Windows, by namespace and pool; with security=true only those for security count.",
	[]string{"namespace", "pool", "security"}, nil)

var pendingUpdates = fleetMetric{pendingUpdatesDesc, collectUpdates}

// collectUpdates counts the hosts on which updates wait to be installed. It says nothing of pools whose hosts have not searched for updates.
func collectUpdates(instances []v1alpha1.WindowsInstance, to chan<- prometheus.Metric) {
	type group struct{ namespace, pool string }
	all, security := map[group]float64{}, map[group]float64{}
	for i := range instances {
		instance := &instances[i]
		u := instance.Status.WindowsUpdates
		if u == nil || u.SearchedAt == nil {
			continue
		}
		g := group{instance.Namespace, object.PoolName(instance)}
		all[g] += one(u.Pending > 0)
		security[g] += one(u.Security > 0)
	}
	for g := range all {
		to <- prometheus.MustNewConstMetric(pendingUpdatesDesc, prometheus.GaugeValue, all[g], g.namespace, g.pool, "false")
		to <- prometheus.MustNewConstMetric(pendingUpdatesDesc, prometheus.GaugeValue, security[g], g.namespace, g.pool, "true")
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
