// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

var notReadyDesc = prometheus.NewDesc("windows_instance_not_ready",
	"WindowsInstances whose condition Ready is not True, by its reason; the value is 1. Those that are ready, paused or deleted are not there, nor are hosts that are only watched and were never nodes.",
	[]string{"namespace", "name", "pool", "reason"}, nil)

var notReady = fleetMetric{notReadyDesc, collectNotReady}

// collectNotReady names the hosts that do not work. A count would hide which of them is new, and since when.
func collectNotReady(instances []v1alpha1.WindowsInstance, to chan<- prometheus.Metric) {
	for i := range instances {
		instance := &instances[i]
		if reason, ok := whyNotReady(instance); ok {
			to <- prometheus.MustNewConstMetric(notReadyDesc, prometheus.GaugeValue, 1, instance.Namespace, instance.Name, object.PoolName(instance), reason)
		}
	}
}

// whyNotReady is the reason for which a host does not work that should. ok is false of other hosts.
func whyNotReady(instance *v1alpha1.WindowsInstance) (reason string, ok bool) {
	ready := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonPaused || !instance.DeletionTimestamp.IsZero() {
		return "", false
	}
	configured := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionConfigured)
	if ready.Reason == v1alpha1.ReasonNoNode && configured != nil && configured.Reason == v1alpha1.ReasonNotManaged {
		return "", false // nobody makes it a node
	}
	return ready.Reason, true
}
