// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
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

// Convert_v1alpha1_RemovalOptions_To_windows_RemovalOptions turns the deprecated field into the
// one that replaces it; see replaceDuration.
func Convert_v1alpha1_RemovalOptions_To_windows_RemovalOptions(in *RemovalOptions, out *windows.RemovalOptions, s conversion.Scope) error {
	err := autoConvert_v1alpha1_RemovalOptions_To_windows_RemovalOptions(in, out, s)
	replaceDuration(in.After, &out.AfterSeconds)
	return err
}

// Convert_v1alpha1_LogRotationTemplate_To_windows_LogRotationTemplate turns the deprecated field
// into the one that replaces it; see replaceDuration.
func Convert_v1alpha1_LogRotationTemplate_To_windows_LogRotationTemplate(in *LogRotationTemplate, out *windows.LogRotationTemplate, s conversion.Scope) error {
	err := autoConvert_v1alpha1_LogRotationTemplate_To_windows_LogRotationTemplate(in, out, s)
	replaceDuration(in.MaxAge, &out.MaxAgeSeconds)
	return err
}

// replaceDuration sets the field that replaces a deprecated one. The deprecated one is never
// returned, so that it is there only when a client has just sent it, or in what an earlier release
// stored: it takes precedence.
func replaceDuration(deprecated *metav1.Duration, replacement **int64) {
	if deprecated != nil {
		*replacement = new(seconds(*deprecated))
	}
}

// seconds are those of d, rounded away from zero: 0 has a meaning of its own.
func seconds(d metav1.Duration) int64 {
	whole := int64(d.Duration / time.Second)
	switch part := d.Duration % time.Second; {
	case part > 0:
		whole++
	case part < 0:
		whole--
	}
	return whole
}
