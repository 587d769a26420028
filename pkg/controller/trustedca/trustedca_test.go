// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package trustedca

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestReconcile(t *testing.T) {
	openShift := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: "trusted-ca"}, Data: map[string]string{"ca-bundle.crt": "theirs"}}
	down := errors.New("the API server is away")
	for _, tt := range []struct {
		name    string
		objects []client.Object
		get     error // for each read of an Infrastructure
		want    *corev1.ConfigMap
		err     error
	}{
		{name: "OpenShift", objects: []client.Object{openShift}, want: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"config.openshift.io/inject-trusted-cabundle": "true"}}}},
		{name: "made by somebody", objects: []client.Object{openShift, theirs}, want: theirs},
		{name: "OpenShift that has lost its Infrastructure", objects: []client.Object{&mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}}},
			want: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"config.openshift.io/inject-trusted-cabundle": "true"}}}},
		{name: "another cluster"},
		{name: "another cluster, without its kinds", get: &meta.NoKindMatchError{}},
		{name: "API server away", get: down, err: down},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, configv1.Install, mcfgv1.Install} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.objects...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					if _, ok := object.(*configv1.Infrastructure); ok && tt.get != nil {
						return tt.get
					}
					return c.Get(ctx, key, object, opts...)
				},
			}).Build()
			r := &Reconciler{live: c, client: c, namespace: "operator"}
			for range 2 { // a second time nothing is to be done
				result, err := r.Reconcile(t.Context(), reconcile.Request{})
				if !errors.Is(err, tt.err) {
					t.Fatalf("got error %v, want %v", err, tt.err)
				}
				if seemsOther := tt.want == nil && tt.err == nil; seemsOther != (result.RequeueAfter == interval) {
					t.Errorf("it looks again after %s", result.RequeueAfter)
				}
			}
			got := &corev1.ConfigMap{}
			if err := client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "operator", Name: "trusted-ca"}, got)); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want == nil {
				want = &corev1.ConfigMap{}
			}
			if diff := cmp.Diff(want.Labels, got.Labels) + cmp.Diff(want.Data, got.Data); diff != "" || (tt.want == nil) != (got.Name == "") {
				t.Errorf("it is there: %t (-want +got)\n%s", got.Name != "", diff)
			}
		})
	}
}
