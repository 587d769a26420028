// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

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

func TestConditionsOfPools(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := func(name string, conditions ...metav1.Condition) *v1alpha1.WindowsNodePool {
		return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: v1alpha1.WindowsNodePoolStatus{Conditions: conditions}}
	}
	var failure error
	cache := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		if failure != nil {
			return failure
		}
		return c.List(ctx, list, o...)
	}}).WithObjects(
		pool("new"),
		pool("broken", metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRolledBack},
			metav1.Condition{Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUpdateOutstanding}),
		pool("well", metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected}),
	).Build()
	const want = `# HELP windows_pool_condition Conditions of WindowsNodePools as they are: status is true, false or unknown, and the value is 1.
# TYPE windows_pool_condition gauge
windows_pool_condition{condition="Degraded",namespace="ns",pool="broken",reason="RolledBack",status="true"} 1
windows_pool_condition{condition="Degraded",namespace="ns",pool="well",reason="AsExpected",status="false"} 1
windows_pool_condition{condition="Updated",namespace="ns",pool="broken",reason="UpdateOutstanding",status="unknown"} 1
`
	if err := testutil.CollectAndCompare(poolConditions{cache}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	failure = errors.New("the cache is not filled")
	if n := testutil.CollectAndCount(poolConditions{cache}); n != 0 {
		t.Errorf("without a cache there are %d", n)
	}
}
