// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newClient(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// A pool that does not exist is none. One that cannot be read is an error: it may say that its
// hosts are left alone.
func TestPoolOf(t *testing.T) {
	var unreadable error
	c := newClient(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if unreadable != nil {
				return unreadable
			}
			return c.Get(ctx, key, obj, o...)
		},
	}, &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}})
	instance := func(namespace, pool string) *v1alpha1.WindowsInstance {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
		if pool != "" {
			i.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool}
		}
		return i
	}
	for _, tt := range []struct {
		name            string
		namespace, pool string
		found           bool
	}{
		{"its pool", "ns", "pool", true},
		{"no pool", "ns", "", false},
		{"a pool that does not exist", "ns", "other", false},
		{"a pool of another namespace", "other", "pool", false},
	} {
		if got, err := PoolOf(t.Context(), c, instance(tt.namespace, tt.pool)); (got != nil) != tt.found || err != nil {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		} else if got != nil && (got.Namespace != "ns" || got.Name != "pool") {
			t.Errorf("%s: got %s/%s", tt.name, got.Namespace, got.Name)
		}
	}
	unreadable = errors.New("the API does not answer")
	if got, err := PoolOf(t.Context(), c, instance("ns", "pool")); got != nil || !errors.Is(err, unreadable) {
		t.Errorf("a pool that cannot be read: got %v, %v", got, err)
	}
}

func TestPausedBy(t *testing.T) {
	pool := func(paused bool) *v1alpha1.WindowsNodePool {
		return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.WindowsNodePoolSpec{Paused: paused}}
	}
	for _, tt := range []struct {
		name   string
		paused bool
		pool   *v1alpha1.WindowsNodePool
		want   string
	}{
		{name: "no pool"},
		{name: "a pool", pool: pool(false)},
		{name: "itself", paused: true, pool: pool(false), want: "spec.paused"},
		{name: "its pool", pool: pool(true), want: "spec.paused of pool p"},
		{name: "both", paused: true, pool: pool(true), want: "spec.paused"},
	} {
		if got := PausedBy(&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Paused: tt.paused}}, tt.pool); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestNodeReady(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}
	pressure := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}
	for _, tt := range []struct {
		name       string
		conditions []corev1.NodeCondition
		want       *corev1.NodeCondition
	}{
		{name: "none"},
		{name: "another one", conditions: []corev1.NodeCondition{pressure}},
		{name: "the first", conditions: []corev1.NodeCondition{ready, pressure}, want: &ready},
		{name: "the last", conditions: []corev1.NodeCondition{pressure, ready}, want: &ready},
	} {
		got := NodeReady(&corev1.Node{Status: corev1.NodeStatus{Conditions: tt.conditions}})
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A server that is starting may not know the API yet; then nothing is gone.
func TestGone(t *testing.T) {
	resource := schema.GroupResource{Group: "windows.openshift.io", Resource: "windowsinstances"}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"the object", apierrors.NewNotFound(resource, "win-1"), true},
		{"the object, in other words", fmt.Errorf("writing: %w", apierrors.NewNotFound(resource, "win-1")), true},
		{"the API", fmt.Errorf("writing: %w", apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, resource, "win-1", "404 page not found", 0, true)), false},
		{"the server", errors.New("connection refused"), false},
	} {
		if got := Gone(tt.err); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		c := newClient(t, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tt.err
			},
		})
		if got, err := Get(t.Context(), c, client.ObjectKey{Name: "win-1"}, &v1alpha1.WindowsInstance{}); (err != nil) != (tt.err != nil && !tt.want) || (got != nil) != (tt.err == nil) {
			t.Errorf("%s: read %v, %v", tt.name, got, err)
		}
	}
}

// Only the object that was seen is deleted: the request has its UID.
func TestDelete(t *testing.T) {
	var uid types.UID
	var answer error
	c := newClient(t, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			var o client.DeleteOptions
			o.ApplyOptions(options)
			if o.Preconditions != nil {
				uid = ptr.Deref(o.Preconditions.UID, "")
			}
			return answer
		},
	})
	seen := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
	resource := schema.GroupResource{Resource: "windowsinstances"}
	for _, tt := range []struct {
		name   string
		answer error
		fails  bool
	}{
		{name: "deleted"},
		{name: "gone already", answer: apierrors.NewNotFound(resource, "a")},
		{name: "the API is away", answer: apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodDelete, resource, "a", "404 page not found", 0, true), fails: true},
		{name: "another object has its name", answer: apierrors.NewConflict(resource, "a", errors.New("UID")), fails: true},
	} {
		answer, uid = tt.answer, ""
		if err := Delete(t.Context(), c, seen); uid != "u" || (err != nil) != tt.fails || tt.fails && !errors.Is(err, tt.answer) {
			t.Errorf("%s: asked for UID %q, got %v", tt.name, uid, err)
		}
	}
}
