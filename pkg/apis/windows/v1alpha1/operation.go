// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

// Active says whether the operation waits to be carried out, or is. That of an instance
// which never had any, nil, is not.
func (o *Operation) Active() bool {
	return o != nil && (o.Phase == OperationPending || o.Phase == OperationRunning)
}
