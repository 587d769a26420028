// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// addConversionFuncs registers the field selectors of WindowsInstance. The registry must
// select by each of them.
func addConversionFuncs(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("WindowsInstance"),
		func(label, value string) (string, string, error) {
			switch label {
			case "metadata.name", "metadata.namespace", "spec.address", "spec.poolRef.name", "status.node.name", "status.phase":
				return label, value, nil
			}
			return "", "", fmt.Errorf("field label %q is not supported for WindowsInstance; supported are metadata.name, metadata.namespace, spec.address, spec.poolRef.name, status.node.name and status.phase", label)
		})
}
