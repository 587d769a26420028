// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package notfound says which answers of an API server mean that an object does not exist. It imports nothing of this project.
package notfound

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// Object says whether an error means that an object does not exist, as opposed to the API that it belongs to, and to what something in
// front of the API server answers while that is away. Either comes back with all its objects. Nil and other errors mean no such thing.
func Object(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}
