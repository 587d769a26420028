// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// ValidateWindowsNodePool checks a new pool. That exactly one source is set, and
// required fields, are declared on the type and checked elsewhere.
func ValidateWindowsNodePool(pool *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&pool.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatePoolSpec(&pool.Spec, field.NewPath("spec"))...)
}

// ValidateWindowsNodePoolUpdate checks a changed pool.
func ValidateWindowsNodePoolUpdate(pool, old *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&pool.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validatePoolSpec(&pool.Spec, field.NewPath("spec"))...)
}

// ValidateWindowsNodePoolStatusUpdate checks a changed status.
func ValidateWindowsNodePoolStatusUpdate(pool, old *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&pool.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, metav1validation.ValidateConditions(pool.Status.Conditions, field.NewPath("status", "conditions"))...)
}

func validatePoolSpec(spec *windows.WindowsNodePoolSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	source := path.Child("source")
	if ref := spec.Source.MachineSet; ref != nil {
		errs = append(errs, validateName(ref.Name, source.Child("machineSet", "name"))...)
	}
	if ref := spec.Source.ConfigMap; ref != nil {
		errs = append(errs, validateName(ref.Name, source.Child("configMap", "name"))...)
	}
	if ref := spec.Template.CredentialsSecretRef; ref != nil {
		errs = append(errs, validateName(ref.Name, path.Child("template", "credentialsSecretRef", "name"))...)
	}
	return errs
}
