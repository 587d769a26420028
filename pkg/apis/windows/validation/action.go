// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// ValidateDrainOptions checks how pods leave a node. Ranges and lengths are
// declared on the type.
func ValidateDrainOptions(o *v1alpha1.DrainOptions, path *field.Path) field.ErrorList {
	if _, err := labels.Parse(o.PodSelector); err != nil {
		return field.ErrorList{field.Invalid(path.Child("podSelector"), o.PodSelector, "must be a label selector as in kubectl -l: "+err.Error())}
	}
	return nil
}

// ValidateRebootSpec checks how a host is restarted.
func ValidateRebootSpec(spec *v1alpha1.WindowsInstanceRebootSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.InstallsUpdates() && spec.Mode != "" && spec.Mode != v1alpha1.RebootGraceful {
		errs = append(errs, field.Forbidden(path.Child("installUpdates"), "updates are installed with mode Graceful only"))
	}
	switch {
	case spec.Drain == nil:
		return errs
	case spec.Mode == v1alpha1.RebootForce:
		return append(errs, field.Forbidden(path.Child("drain"), "a reboot with mode Force does not drain; use mode Graceful, or leave drain out"))
	}
	return append(errs, ValidateDrainOptions(spec.Drain, path.Child("drain"))...)
}
