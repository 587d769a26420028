// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxMetadata is how much metadata an object may have, in bytes as they are stored. Kubernetes allows 256 KiB
// of annotations alone, and any number of managers of fields; both programs keep all objects of all
// namespaces in memory. What instances and pools really have is below 8 KiB.
const maxMetadata = 32 << 10

// validateMetadata checks how much metadata an object has. One that had more may not get any more; old is nil for
// a new object.
func validateMetadata(now, old *metav1.ObjectMeta) field.ErrorList {
	size := now.Size()
	if size <= maxMetadata || old != nil && size <= old.Size() {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), fmt.Sprintf("%d bytes", size), fmt.Sprintf(
		"labels, annotations, finalizers, owner references and managed fields may have %d bytes together; keep large values elsewhere, as in a ConfigMap", maxMetadata))}
}
