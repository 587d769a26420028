// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// others stands for all field managers but one.
const others = "others"

// OfOthers returns what others have set on an instance, of all that is not of its status, and no more
// than that: the fields that fieldManager has not applied.
func OfOthers(instance *v1alpha1.WindowsInstance, fieldManager string) (*v1alpha1.WindowsInstance, error) {
	theirs, ours := fieldpath.NewSet(), fieldpath.NewSet()
	for _, entry := range instance.ManagedFields {
		if entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
		}
		if entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			ours = ours.Union(&set)
		} else {
			theirs = theirs.Union(&set)
		}
	}
	raw, err := theirs.Difference(ours).ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write the fields of others: %w", err)
	}
	instance = instance.DeepCopy()
	instance.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: others, Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.SchemeGroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}}
	extracted, err := acwindowsv1alpha1.ExtractWindowsInstance(instance, others)
	if err != nil {
		return nil, fmt.Errorf("take the fields of others from the object: %w", err)
	}
	extracted.Status = nil
	data, err := json.Marshal(extracted)
	if err != nil {
		return nil, fmt.Errorf("write the object of others: %w", err)
	}
	theirObject := &v1alpha1.WindowsInstance{}
	if err := json.Unmarshal(data, theirObject); err != nil {
		return nil, fmt.Errorf("read the object of others: %w", err)
	}
	return theirObject, nil
}
