// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

func TestValidateWindowsNodePool(t *testing.T) {
	named := func(name string) *windows.SourceReference { return &windows.SourceReference{Name: name} }
	for _, test := range []struct {
		name string
		spec windows.WindowsNodePoolSpec
		want []string
	}{
		{"of a MachineSet", windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: named("winworker")}}, nil},
		{"of a ConfigMap", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: named("windows-instances")}}, nil},
		{"of instances", windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}}, nil},
		{"bad MachineSet", windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: named("a/b")}}, []string{"Invalid spec.source.machineSet.name"}},
		{"bad ConfigMap", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: named("A")}}, []string{"Invalid spec.source.configMap.name"}},
		{"bad Secret", windows.WindowsNodePoolSpec{
			Source:   windows.PoolSource{ConfigMap: named("x")},
			Template: windows.PoolTemplate{CredentialsSecretRef: &windows.SecretReference{Name: "a b"}},
		}, []string{"Invalid spec.template.credentialsSecretRef.name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: "1"}, Spec: test.spec}
			check(t, test.want, ValidateWindowsNodePool(pool))
			check(t, test.want, ValidateWindowsNodePoolUpdate(pool, pool.DeepCopy()))
			check(t, nil, ValidateWindowsNodePoolStatusUpdate(pool, pool.DeepCopy()))
		})
	}
}

func TestValidateWindowsNodePoolMeta(t *testing.T) {
	old := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name", Namespace: "default", UID: "1", ResourceVersion: "1"}}
	check(t, []string{"Invalid metadata.name"}, ValidateWindowsNodePool(old))
	changed := old.DeepCopy()
	changed.UID = "2"
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsNodePoolUpdate(changed, old))
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsNodePoolStatusUpdate(changed, old))
}

func TestValidateWindowsNodePoolStatusUpdate(t *testing.T) {
	old := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: "1"}}
	pool := old.DeepCopy()
	pool.Status.Conditions = []metav1.Condition{{Type: "Degraded", Status: "Maybe", Reason: "X", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
	check(t, []string{"NotSupported status.conditions[0].status"}, ValidateWindowsNodePoolStatusUpdate(pool, old))
}
