// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/validation"
)

// TestMetadataIsBounded: nobody fills the memory of both programs with what Kubernetes lets objects carry. What
// is there already does not keep an object from being changed.
func TestMetadataIsBounded(t *testing.T) {
	annotated := func(size int) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"example.com/a": strings.Repeat("a", size)}
		}
	}
	finalizers := func(m *metav1.ObjectMeta) {
		for i := range 1000 {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/finalizer-with-a-long-name-%d", i))
		}
	}
	managers := func(m *metav1.ObjectMeta) {
		for i := range 1000 {
			m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: fmt.Sprint("manager-", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "windows.openshift.io/v1alpha1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:address":{}}}`),
			})
		}
	}
	for _, tt := range []struct {
		name     string
		old, now func(*metav1.ObjectMeta) // old nil: it is created
		refused  bool
	}{
		{"as usual", nil, annotated(8 << 10), false},
		{"a large annotation", nil, annotated(40 << 10), true},
		{"many finalizers", nil, finalizers, true},
		{"many managers", annotated(1), managers, true},
		{"it grows", annotated(1 << 10), annotated(40 << 10), true},
		{"it was larger", annotated(60 << 10), annotated(40 << 10), false},
		{"it stays as large", annotated(60 << 10), annotated(60 << 10), false},
		{"it was too large, and grows", annotated(40 << 10), annotated(41 << 10), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			meta := func(change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
				m := metav1.ObjectMeta{Namespace: "a", Name: "a", ResourceVersion: "1", UID: "u"}
				change(&m)
				return m
			}
			var instance, pool field.ErrorList
			now := meta(tt.now)
			if tt.old == nil {
				instance = validation.ValidateWindowsInstance(&windows.WindowsInstance{ObjectMeta: now})
				pool = validation.ValidateWindowsNodePool(&windows.WindowsNodePool{ObjectMeta: now})
			} else {
				old := meta(tt.old)
				instance = validation.ValidateWindowsInstanceUpdate(&windows.WindowsInstance{ObjectMeta: now}, &windows.WindowsInstance{ObjectMeta: old})
				pool = validation.ValidateWindowsNodePoolUpdate(&windows.WindowsNodePool{ObjectMeta: now}, &windows.WindowsNodePool{ObjectMeta: old})
			}
			for kind, errs := range map[string]field.ErrorList{"instance": instance, "pool": pool} {
				refused := false
				for _, err := range errs {
					refused = refused || err.Field == "metadata"
				}
				if refused != tt.refused {
					t.Errorf("%s: %v", kind, errs)
				}
			}
		})
	}
}
