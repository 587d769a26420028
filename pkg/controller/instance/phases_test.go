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
	if err := testutil.CollectAndCompare(pendingUpdates{builder.Build()}, strings.NewReader(want)); err != nil {
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
	collector := phases{builder.Build()}
	const want = `# HELP windows_instances WindowsInstances by namespace and phase.
# TYPE windows_instances gauge
windows_instances{namespace="ns",phase="Ready"} 2
windows_instances{namespace="ns",phase="Unreachable"} 1
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	failure = errors.New("the cache is not filled")
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("without a cache there are %d", n)
	}
}
