// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var operationStartedDesc = prometheus.NewDesc("windows_instance_operation_started_timestamp_seconds",
	"When the operation of a WindowsInstance got its slot, or else started, or else was requested, in seconds since 1970. Those that have ended are not there, nor are those of the controller that wait for their slot and have not changed anything, unless they remove the host.",
	[]string{"namespace", "name", "type"}, nil)

var activeOperations = fleetMetric{operationStartedDesc, collectOperations}

// collectOperations says which operations have not ended.
func collectOperations(instances []v1alpha1.WindowsInstance, to chan<- prometheus.Metric) {
	for i := range instances {
		instance := &instances[i]
		// One that gives way may wait for days, such as for the window of its pool.
		if op := instance.Status.Operation; op.Active() && !instance.Status.GivesWayToPeople() {
			to <- prometheus.MustNewConstMetric(operationStartedDesc, prometheus.GaugeValue, float64(startOf(op).Unix()), instance.Namespace, instance.Name, string(op.Type))
		}
	}
}

// startOf is since when an active operation could have made progress.
func startOf(op *v1alpha1.Operation) metav1.Time {
	if slot := op.FindStep(v1alpha1.StepWaitForSlot); slot != nil && slot.FinishedAt != nil {
		return *slot.FinishedAt
	}
	if op.StartedAt != nil {
		return *op.StartedAt
	}
	return op.RequestedAt
}
