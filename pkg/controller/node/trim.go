// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Annotations are those of Nodes that this controller reads. A cache must keep them.
func Annotations() []string {
	return []string{v1alpha1.ManagedTaintsAnnotation, v1alpha1.WrittenVersionAnnotation, wmco.VersionAnnotation, wmco.DesiredVersionAnnotation}
}

// TrimManagedFields drops from a Node the managed fields that this controller does not
// read, which are most of a Node. It is for the transformation of a cache.
func TrimManagedFields(node *corev1.Node) {
	node.ManagedFields = slices.DeleteFunc(node.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager != fieldManager || f.Operation != metav1.ManagedFieldsOperationApply || f.Subresource != ""
	})
}
