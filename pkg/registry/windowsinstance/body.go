// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// validateBodyOf compares the body of a request to a subresource with the URL that it was
// posted to: a body that names something else was meant for something else.
func validateBodyOf(ctx context.Context, name string, body metav1.Object) field.ErrorList {
	var errs field.ErrorList
	if n := body.GetName(); n != "" && n != name {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), n, "must be empty, or the name in the URL: "+name))
	}
	if want, ok := genericapirequest.NamespaceFrom(ctx); ok {
		if ns := body.GetNamespace(); ns != "" && ns != want {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), ns, "must be empty, or the namespace in the URL: "+want))
		}
	}
	return errs
}
