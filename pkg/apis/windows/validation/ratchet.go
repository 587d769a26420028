// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// added returns those of errs that a change has brought about: what is wrong with the same value
// at the same place of the old object is left out. So an object that an earlier release stored
// by other rules can still be changed, as long as what is wrong with it is not. The rules
// that are declared on the types do the same.
func added(errs, old field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(old, func(before *field.Error) bool { return reflect.DeepEqual(err, before) })
	})
}
