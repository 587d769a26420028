// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestPendingUpdates: the hosts of a pool that wait for updates are counted, and none of those that never searched.
func TestPendingUpdates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	searched := new(metav1.Now())
	for name, updates := range map[string]*v1alpha1.WindowsUpdatesStatus{
		"a": {SearchedAt: searched, Pending: 3, Security: 2}, "b": {SearchedAt: searched, Pending: 1}, "c": {SearchedAt: searched}, "d": {Message: "failed"}, "e": nil,
	} {
		builder.WithObjects(&v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       v1alpha1.WindowsInstanceSpec{PoolRef: &v1alpha1.PoolReference{Name: "pool"}},
			Status:     v1alpha1.WindowsInstanceStatus{WindowsUpdates: updates},
		})
	}
	const want = `# HELP windows_instances_updates_pending WindowsInstances whose hosts wait for updates of Windows, by namespace and pool; with security=true only those for security count.
# TYPE windows_instances_updates_pending gauge
windows_instances_updates_pending{namespace="ns",pool="pool",security="false"} 2
windows_instances_updates_pending{namespace="ns",pool="pool",security="true"} 1
`
	if err := testutil.CollectAndCompare(collector{builder.Build(), []fleetMetric{pendingUpdates}}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestPhases(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var failure error
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		if failure != nil {
			return failure
		}
		return c.List(ctx, list, o...)
	}})
	for name, phase := range map[string]v1alpha1.WindowsInstancePhase{"a": v1alpha1.InstanceReady, "b": v1alpha1.InstanceReady, "c": v1alpha1.InstanceUnreachable} {
		builder.WithObjects(&v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: v1alpha1.WindowsInstanceStatus{Phase: phase}})
	}
	collects := collector{builder.Build(), []fleetMetric{phases}}
	const want = `# HELP windows_instances WindowsInstances by namespace and phase.
# TYPE windows_instances gauge
windows_instances{namespace="ns",phase="Ready"} 2
windows_instances{namespace="ns",phase="Unreachable"} 1
`
	if err := testutil.CollectAndCompare(collects, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	failure = errors.New("the cache is not filled")
	if n := testutil.CollectAndCount(collects); n != 0 {
		t.Errorf("without a cache there are %d", n)
	}
}

// TestNotReady: each host that does not work is named, and none that is not expected to.
func TestNotReady(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}
	}
	watched := metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotManaged}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	add := func(name string, change func(*v1alpha1.WindowsInstance), conditions ...metav1.Condition) {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: v1alpha1.WindowsInstanceStatus{Conditions: conditions}}
		if change != nil {
			change(i)
		}
		builder.WithObjects(i)
	}
	add("well", nil, ready(metav1.ConditionTrue, v1alpha1.ReasonAllChecksPassed))
	add("new", nil)
	add("paused", nil, ready(metav1.ConditionUnknown, v1alpha1.ReasonPaused))
	add("deleted", func(i *v1alpha1.WindowsInstance) {
		i.DeletionTimestamp, i.Finalizers = new(metav1.Now()), []string{v1alpha1.HostFinalizer}
	}, ready(metav1.ConditionFalse, v1alpha1.ReasonRemoving))
	add("watched", nil, ready(metav1.ConditionFalse, v1alpha1.ReasonNoNode), watched)
	add("watched-and-off", nil, ready(metav1.ConditionFalse, v1alpha1.ReasonConnectionTimedOut), watched)
	add("untried", nil, ready(metav1.ConditionUnknown, v1alpha1.ReasonNotTried))
	add("retried", func(i *v1alpha1.WindowsInstance) {
		i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}
		i.Status.Phase = v1alpha1.InstanceConfiguring
		i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning}
	}, ready(metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady))
	const want = `# HELP windows_instance_not_ready WindowsInstances whose condition Ready is not True, by its reason; the value is 1. Those that are ready, paused or deleted are not there, nor are hosts that are only watched and were never nodes.
# TYPE windows_instance_not_ready gauge
windows_instance_not_ready{name="retried",namespace="ns",pool="pool",reason="NodeNotReady"} 1
windows_instance_not_ready{name="untried",namespace="ns",pool="",reason="NotTried"} 1
windows_instance_not_ready{name="watched-and-off",namespace="ns",pool="",reason="ConnectionTimedOut"} 1
`
	if err := testutil.CollectAndCompare(collector{builder.Build(), []fleetMetric{notReady}}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestActiveOperations: of an operation that has not ended it is said since when it could have made progress, and nothing of those that wait as they
// are meant to.
func TestActiveOperations(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := func(seconds int64) *metav1.Time { return new(metav1.Unix(seconds, 0)) }
	slot := func(state v1alpha1.OperationStepState, finished *metav1.Time) []v1alpha1.OperationStep {
		return []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: state, StartedAt: at(200), FinishedAt: finished}}
	}
	const reboot, remove, ours, running = v1alpha1.OperationReboot, v1alpha1.OperationRemove, v1alpha1.OriginController, v1alpha1.OperationRunning
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for name, op := range map[string]*v1alpha1.Operation{
		"none":                           nil,
		"ended":                          {Type: reboot, Phase: v1alpha1.OperationFailed, RequestedAt: *at(100), FinishedAt: at(300)},
		"pending":                        {Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationPending, RequestedAt: *at(100)},
		"drains":                         {Type: v1alpha1.OperationDrain, Phase: running, RequestedAt: *at(100), StartedAt: at(101)},
		"waits for its slot":             {Type: reboot, Phase: running, Origin: ours, RequestedAt: *at(100), StartedAt: at(101), Steps: slot(v1alpha1.StepRunning, nil)},
		"has its slot":                   {Type: reboot, Phase: running, Origin: ours, RequestedAt: *at(100), StartedAt: at(101), Steps: slot(v1alpha1.StepSucceeded, at(250))},
		"waits for its slot to be clean": {Type: remove, Phase: running, Origin: ours, RequestedAt: *at(100), StartedAt: at(102), Steps: slot(v1alpha1.StepRunning, nil)},
	} {
		builder.WithObjects(&v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.ReplaceAll(name, " ", "-")}, Status: v1alpha1.WindowsInstanceStatus{Operation: op}})
	}
	const want = `# HELP windows_instance_operation_started_timestamp_seconds When the operation of a WindowsInstance got its slot, or else started, or else was requested, in seconds since 1970. Those that have ended are not there, nor are those of the controller that wait for their slot and have not changed anything, unless they remove the host.
# TYPE windows_instance_operation_started_timestamp_seconds gauge
windows_instance_operation_started_timestamp_seconds{name="drains",namespace="ns",type="Drain"} 101
windows_instance_operation_started_timestamp_seconds{name="has-its-slot",namespace="ns",type="Reboot"} 250
windows_instance_operation_started_timestamp_seconds{name="pending",namespace="ns",type="Drain"} 100
windows_instance_operation_started_timestamp_seconds{name="waits-for-its-slot-to-be-clean",namespace="ns",type="Remove"} 102
`
	if err := testutil.CollectAndCompare(collector{builder.Build(), []fleetMetric{activeOperations}}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
