// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// A change of a pool concerns its instances: those of its namespace that name it.
func TestMembersOf(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	instance := func(namespace, name string, pool *v1alpha1.PoolReference) client.Object {
		return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.WindowsInstanceSpec{PoolRef: pool}}
	}
	var unreadable error
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool).WithObjects(
		instance("ns", "a", &v1alpha1.PoolReference{Name: "pool"}),
		instance("ns", "b", &v1alpha1.PoolReference{Name: "pool"}),
		instance("ns", "other-pool", &v1alpha1.PoolReference{Name: "other"}),
		instance("ns", "no-pool", nil),
		instance("other", "a", &v1alpha1.PoolReference{Name: "pool"}),
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if unreadable != nil {
				return unreadable
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}}
	ctx := log.IntoContext(t.Context(), logr.Discard())
	want := []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}, {NamespacedName: types.NamespacedName{Namespace: "ns", Name: "b"}},
	}
	if diff := cmp.Diff(want, MembersOf(c)(ctx, pool)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	unreadable = errors.New("the cache is closed")
	if got := MembersOf(c)(ctx, pool); got != nil {
		t.Errorf("without a cache: got %v", got)
	}
}

// A controller is woken about the instance, and nobody waits for one that has ended.
func TestWake(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	to := make(chan event.GenericEvent, 1)
	Wake(t.Context(), to, key)
	if got := client.ObjectKeyFromObject((<-to).Object); got != key {
		t.Errorf("got %s, want %s", got, key)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	Wake(ended, nil, key)
}

// A change of an instance concerns the pool that it names, in its namespace.
func TestPoolOf(t *testing.T) {
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	if got := PoolOf(t.Context(), instance); got != nil {
		t.Errorf("got %v for an instance without a pool", got)
	}
	instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "p"}}}
	if diff := cmp.Diff(want, PoolOf(t.Context(), instance)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := PoolOf(t.Context(), &v1alpha1.WindowsNodePool{}); got != nil {
		t.Errorf("got %v for something else", got)
	}
}
