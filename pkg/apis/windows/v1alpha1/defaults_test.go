// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}

// allOfIt has a value in each field that is not its default.
func allOfIt() v1alpha1.PoolUpdateStrategy {
	return v1alpha1.PoolUpdateStrategy{
		Type:          v1alpha1.OnRequest,
		RollingUpdate: v1alpha1.PoolRollingUpdate{MaxUnavailable: new(intstr.FromString("10%")), Canary: new(intstr.FromInt32(0)), MaxFailures: new(int32(2)), OnFailure: v1alpha1.FailureRollback},
		Window:        &v1alpha1.MaintenanceWindow{Schedule: "0 2 * * SAT", DurationSeconds: 3600, TimeZone: "Europe/Berlin"},
		Drain: v1alpha1.PoolDrainOptions{
			GracePeriodSeconds: new(int64(0)), TimeoutSeconds: new(int64(0)), DeleteEmptyDirData: new(false), Force: new(false),
			SkipWaitForDeleteTimeoutSeconds: new(int32(0)),
		},
	}
}

func TestDefaults(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name string
		in   runtime.Object
		want runtime.Object
	}{
		{
			"instance without port and user",
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Address: "10.0.0.1"}},
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Address: "10.0.0.1", Port: 22, Username: "Administrator"}},
		},
		{
			"bastion of an instance",
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 1, Username: "u", Bastion: &v1alpha1.Bastion{}}},
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 1, Username: "u", Bastion: &v1alpha1.Bastion{Port: 22}}},
		},
		{
			"instance with both",
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 2222, Username: "capi"}},
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 2222, Username: "capi"}},
		},
		{
			"instance with a removal",
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 22, Username: "a", Removal: &v1alpha1.RemovalOptions{}}},
			&v1alpha1.WindowsInstance{Spec: v1alpha1.WindowsInstanceSpec{Port: 22, Username: "a", Removal: &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalClean}}},
		},
		{
			"each of a list",
			&v1alpha1.WindowsInstanceList{Items: []v1alpha1.WindowsInstance{{}, {Spec: v1alpha1.WindowsInstanceSpec{Port: 23}}}},
			&v1alpha1.WindowsInstanceList{Items: []v1alpha1.WindowsInstance{
				{Spec: v1alpha1.WindowsInstanceSpec{Port: 22, Username: "Administrator"}},
				{Spec: v1alpha1.WindowsInstanceSpec{Port: 23, Username: "Administrator"}},
			}},
		},
		{
			"reboot, whose time depends on the host",
			&v1alpha1.WindowsInstanceReboot{Spec: v1alpha1.WindowsInstanceRebootSpec{RebootOptions: v1alpha1.RebootOptions{Mode: v1alpha1.RebootForce}}},
			&v1alpha1.WindowsInstanceReboot{Spec: v1alpha1.WindowsInstanceRebootSpec{RebootOptions: v1alpha1.RebootOptions{Mode: v1alpha1.RebootForce}}},
		},
		{
			"reboot of a host that Windows has something to install on",
			&v1alpha1.WindowsInstance{Status: v1alpha1.WindowsInstanceStatus{Operation: &v1alpha1.Operation{Reboot: &v1alpha1.RebootOptions{Mode: v1alpha1.RebootIfPending}}}},
			&v1alpha1.WindowsInstance{
				Spec:   v1alpha1.WindowsInstanceSpec{Port: 22, Username: "Administrator"},
				Status: v1alpha1.WindowsInstanceStatus{Operation: &v1alpha1.Operation{Reboot: &v1alpha1.RebootOptions{Mode: v1alpha1.RebootIfPending, TimeoutSeconds: new(int64(3600))}}},
			},
		},
		{
			"such a reboot with a time",
			&v1alpha1.WindowsInstance{Status: v1alpha1.WindowsInstanceStatus{Operation: &v1alpha1.Operation{Reboot: &v1alpha1.RebootOptions{Mode: v1alpha1.RebootIfPending, TimeoutSeconds: new(int64(60))}}}},
			&v1alpha1.WindowsInstance{
				Spec:   v1alpha1.WindowsInstanceSpec{Port: 22, Username: "Administrator"},
				Status: v1alpha1.WindowsInstanceStatus{Operation: &v1alpha1.Operation{Reboot: &v1alpha1.RebootOptions{Mode: v1alpha1.RebootIfPending, TimeoutSeconds: new(int64(60))}}},
			},
		},
		{
			"log options",
			&v1alpha1.WindowsInstanceLogOptions{},
			&v1alpha1.WindowsInstanceLogOptions{CaseSensitive: &yes, Output: "text"},
		},
		{
			"log options that are set",
			&v1alpha1.WindowsInstanceLogOptions{CaseSensitive: &no, Output: "json"},
			&v1alpha1.WindowsInstanceLogOptions{CaseSensitive: &no, Output: "json"},
		},
		{
			"pool, for example one that an earlier release stored",
			&v1alpha1.WindowsNodePool{},
			&v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: v1alpha1.PoolUpdateStrategy{
				Type:          v1alpha1.RollingUpdate,
				RollingUpdate: v1alpha1.PoolRollingUpdate{MaxUnavailable: new(intstr.FromInt32(1)), MaxFailures: new(int32(0)), OnFailure: v1alpha1.FailureStop},
				Drain:         v1alpha1.PoolDrainOptions{TimeoutSeconds: new(int64(600)), DeleteEmptyDirData: &yes, Force: &yes},
			}, Restarts: v1alpha1.PoolRestarts{Policy: v1alpha1.RestartNever}, WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: v1alpha1.InstallNone}}},
		},
		{
			"pool with all of it",
			&v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: allOfIt(), Restarts: v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}, WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: v1alpha1.InstallAll}, Remediation: &v1alpha1.PoolRemediation{}}},
			&v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{UpdateStrategy: allOfIt(), Restarts: v1alpha1.PoolRestarts{Policy: v1alpha1.RestartWhenPending}, WindowsUpdates: v1alpha1.PoolWindowsUpdates{Install: v1alpha1.InstallAll}, Remediation: &v1alpha1.PoolRemediation{
				AfterSeconds: new(int64(600)), Actions: []v1alpha1.PoolRemediationAction{v1alpha1.RemediateRestartServices, v1alpha1.RemediateRestart}, MaxUnhealthy: new(intstr.FromString("40%")),
			}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.in.DeepCopyObject()
			newScheme().Default(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("defaults differ (-want +got):\n%s", diff)
			}
		})
	}
}
