// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// checkerFunc is a Checker.
type checkerFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus

func (f checkerFunc) Check(ctx context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
	return f(ctx, instance)
}

func TestCheck(t *testing.T) {
	named := func(namespace, name string) *windows.WindowsInstanceCheck {
		return &windows.WindowsInstanceCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	forged := named("", "")
	forged.Status.Passed = true
	refuse := func(context.Context, k8sruntime.Object) error {
		return apierrors.NewForbidden(windows.Resource("windowsinstances"), "win-1", nil)
	}
	for _, test := range []struct {
		name     string
		instance string
		body     k8sruntime.Object
		admit    func(context.Context, k8sruntime.Object) error
		options  metav1.CreateOptions
		want     int32 // 0: an answer
	}{
		{"no name in the body", "win-1", named("", ""), nil, metav1.CreateOptions{}, 0},
		{"the same name", "win-1", named(validInstance().Namespace, "win-1"), nil, metav1.CreateOptions{}, 0},
		{"dry run", "win-1", named("", ""), nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, 0},
		{"a status in the body is passed over", "win-1", forged, nil, metav1.CreateOptions{}, 0},
		{"another name", "win-1", named("", "win-2"), nil, metav1.CreateOptions{}, 422},
		{"another namespace", "win-1", named("elsewhere", ""), nil, metav1.CreateOptions{}, 422},
		{"another kind", "win-1", &windows.WindowsInstance{}, nil, metav1.CreateOptions{}, 400},
		{"no such instance", "win-2", named("", ""), nil, metav1.CreateOptions{}, 404},
		{"admission refuses", "win-1", named("", ""), refuse, metav1.CreateOptions{}, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &CheckREST{streams: limits.New(nil), instances: instances{}, checker: checkerFunc(func(_ context.Context, instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceCheckStatus {
				if test.want != 0 {
					t.Error("the host was contacted")
				}
				return &v1alpha1.WindowsInstanceCheckStatus{Layers: []v1alpha1.CheckLayer{{Name: "Connect", Result: v1alpha1.CheckFailed, Message: instance.Name}}}
			})}
			ctx := genericapirequest.WithNamespace(t.Context(), validInstance().Namespace)
			obj, err := r.Create(ctx, test.instance, test.body, test.admit, &test.options)
			if test.want != 0 {
				var status apierrors.APIStatus
				if !asStatus(err, &status) || status.Status().Code != test.want {
					t.Errorf("got %v, want code %d", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, ok := obj.(*windows.WindowsInstanceCheck)
			if !ok || got.Name != "win-1" || got.Namespace != validInstance().Namespace || got.Status.Passed || len(got.Status.Layers) != 1 || got.Status.Layers[0].Message != "win-1" {
				t.Errorf("got %+v", obj)
			}
		})
	}
}

func TestCheckTable(t *testing.T) {
	check := &windows.WindowsInstanceCheck{Status: windows.WindowsInstanceCheckStatus{
		Layers: []windows.CheckLayer{
			{Name: "Resolve", Result: "Passed", Duration: metav1.Duration{Duration: 1200 * time.Microsecond}, Message: "10.0.0.5"},
			{Name: "Connect", Result: "Failed", Duration: metav1.Duration{Duration: time.Second}, Reason: "ConnectionRefused", Message: "Nothing listens."},
			{Name: "Handshake", Result: windows.CheckSkipped, Message: "It needs the layer Connect, which failed."},
		},
		Findings: []windows.CheckFinding{{Code: "RebootPending", Severity: "Warning", Message: "Windows waits for a restart"}},
	}}
	want := []string{
		"Layer | Result | Duration | Reason | Message",
		"Resolve | Passed | 1.2ms | <none> | 10.0.0.5",
		"Connect | Failed | 1s | ConnectionRefused | Nothing listens.",
		"Handshake | Skipped | <none> | <none> | It needs the layer Connect, which failed.",
		"Finding | Warning | <none> | RebootPending | Windows waits for a restart",
	}
	if diff := cmp.Diff(want, asText(t, (&CheckREST{}).ConvertToTable, check)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
