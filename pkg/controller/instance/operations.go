// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var operationStartedDesc = prometheus.NewDesc("windows_instance_operation_started_timestamp_seconds",
	"When the operation of a WindowsInstance got its slot, or else started, or else was requested, in seconds since 1970. Those that have ended are not there, nor are those of the controller that wait for their slot and have not changed anything, unless they remove the host.",
	[]string{"namespace", "name", "type"}, nil)

// activeOperations says, when it is asked, which operations have not ended.
type activeOperations struct{ cache client.Reader }

// Describe implements prometheus.Collector.
func (activeOperations) Describe(to chan<- *prometheus.Desc) { to <- operationStartedDesc }

// Collect implements prometheus.Collector. It says nothing as long as the cache is not filled.
func (a activeOperations) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), phasesTimeout)
	defer cancel()
	var instances v1alpha1.WindowsInstanceList
	if err := a.cache.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range instances.Items {
		instance := &instances.Items[i]
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
