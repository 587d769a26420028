// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestOfOthers(t *testing.T) {
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", Labels: map[string]string{"by": "people"}, Annotations: map[string]string{"by": "us", "too": "people"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				owns(manager, metav1.ManagedFieldsOperationApply, "", `{"f:metadata":{"f:annotations":{"f:by":{}}},"f:spec":{"f:address":{},"f:username":{}}}`),
				owns("kubectl", metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:labels":{"f:by":{}}},"f:spec":{"f:paused":{},"f:username":{}}}`),
				owns("argocd", metav1.ManagedFieldsOperationApply, "", `{"f:metadata":{"f:annotations":{"f:too":{}}},"f:spec":{"f:providerID":{}}}`),
				owns(manager, metav1.ManagedFieldsOperationUpdate, "status", `{"f:status":{"f:machineID":{}}}`),
			},
		},
		Spec:   v1alpha1.WindowsInstanceSpec{Address: "10.1.42.1", Username: "a", Paused: true, ProviderID: "vm-1"},
		Status: v1alpha1.WindowsInstanceStatus{MachineID: "m"},
	}
	got, err := OfOthers(instance, manager)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.WindowsInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"by": "people"}, Annotations: map[string]string{"too": "people"}},
		Spec:       v1alpha1.WindowsInstanceSpec{Paused: true, ProviderID: "vm-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(instance.ManagedFields) != 4 {
		t.Error("the instance, which belongs to a cache, was changed")
	}
	instance.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{")
	if _, err := OfOthers(instance, manager); err == nil {
		t.Error("fields that cannot be read are taken for none")
	}
}

func owns(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "windows.openshift.io/v1alpha1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}
