// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// instanceFieldLabels are the field selectors of WindowsInstance besides
// metadata.name and metadata.namespace.
var instanceFieldLabels = map[string]bool{
	"metadata.name":      true,
	"metadata.namespace": true,
	"spec.poolRef.name":  true,
	"spec.address":       true,
	"status.node.name":   true,
	"status.phase":       true,
}

func addConversionFuncs(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("WindowsInstance"),
		func(label, value string) (string, string, error) {
			if !instanceFieldLabels[label] {
				return "", "", fmt.Errorf("field label %q is not supported for WindowsInstance; supported are metadata.name, metadata.namespace, spec.address, spec.poolRef.name, status.node.name and status.phase", label)
			}
			return label, value, nil
		})
}
