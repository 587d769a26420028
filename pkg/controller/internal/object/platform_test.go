// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package object

import (
	"context"
	"errors"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPlatform: a cluster that is none of OpenShift has no platform, and nobody guesses that of one whose Infrastructure says none.
func TestPlatform(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, mcfgv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("etcd is slow")
	for name, tt := range map[string]struct {
		status *configv1.InfrastructureStatus // nil: there is no Infrastructure
		fails  error
		// openShift: there is a ControllerConfig. unsure fails to read that.
		openShift bool
		unsure    error
		want      configv1.PlatformType
		wantErr   error
	}{
		"it says so":             {status: &configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Type: configv1.AzurePlatformType}}, want: configv1.AzurePlatformType},
		"none":                   {status: &configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Type: configv1.NonePlatformType}}, want: configv1.NonePlatformType},
		"in the field of before": {status: &configv1.InfrastructureStatus{Platform: configv1.AWSPlatformType}, want: configv1.AWSPlatformType},                                                                                    //nolint:staticcheck // clusters have it
		"in both":                {status: &configv1.InfrastructureStatus{Platform: configv1.NonePlatformType, PlatformStatus: &configv1.PlatformStatus{Type: configv1.NutanixPlatformType}}, want: configv1.NutanixPlatformType}, //nolint:staticcheck // clusters have it
		"it says nothing":        {status: &configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{}}, wantErr: ErrNoPlatform},
		"it has no status":       {status: &configv1.InfrastructureStatus{}, wantErr: ErrNoPlatform},
		"there is no object":     {},
		"there is no such kind":  {fails: &meta.NoKindMatchError{}},
		"it was deleted":         {openShift: true, wantErr: ErrNoPlatform},
		"its kind was deleted":   {fails: &meta.NoKindMatchError{}, openShift: true, wantErr: ErrNoPlatform},
		"it may be OpenShift":    {unsure: broken, wantErr: broken},
		"nor is there the other": {unsure: &meta.NoKindMatchError{}},
		"it cannot be read":      {fails: broken, wantErr: broken},
	} {
		t.Run(name, func(t *testing.T) {
			builder := clientfake.NewClientBuilder().WithScheme(scheme)
			if tt.status != nil {
				builder = builder.WithObjects(&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: InfrastructureName}, Status: *tt.status})
			}
			if tt.openShift {
				builder = builder.WithObjects(&mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}})
			}
			builder = builder.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if _, ok := o.(*configv1.Infrastructure); ok && tt.fails != nil {
						return tt.fails
					} else if !ok && tt.unsure != nil {
						return tt.unsure
					}
					return c.Get(ctx, key, o, opts...)
				},
			})
			if got, err := Platform(t.Context(), builder.Build()); got != tt.want || !errors.Is(err, tt.wantErr) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
