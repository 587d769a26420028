// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// validateBastion checks a bastion, nil being none. Its user need not be one of Windows. Which fields are required is
// declared on the type.
func validateBastion(b *windows.Bastion, path *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	var errs field.ErrorList
	if b.Address != "" {
		errs = append(errs, validateAddress(b.Address, path.Child("address"))...)
	}
	if strings.IndexFunc(b.Username, unicode.IsControl) >= 0 || strings.TrimSpace(b.Username) != b.Username {
		errs = append(errs, field.Invalid(path.Child("username"), b.Username, "must not contain control characters, nor begin or end with a space"))
	}
	for i, key := range b.HostKeys {
		errs = append(errs, validatePin(key, path.Child("hostKeys").Index(i))...)
	}
	return append(errs, validateName(b.CredentialsSecretRef.Name, path.Child("credentialsSecretRef", "name"))...)
}
