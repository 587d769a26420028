// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// recordOperation makes an operation the one of the instance.
func recordOperation(status *v1alpha1.WindowsInstanceStatus, t v1alpha1.OperationType, now time.Time) error {
	o := v1alpha1.NewOperation(t, rand.String(v1alpha1.OperationIDLength), v1alpha1.OriginController, v1alpha1.ControllerRequester, now)
	if t == v1alpha1.OperationReconfigure {
		// Known before it begins, so that one that does not get far counts as an attempt at it.
		o.Revision = status.DesiredRevision
	}
	if err := status.Record(o); err != nil {
		return fmt.Errorf("recording an operation: %w", err)
	}
	return nil
}

// cancelOperation requests the end of the operation of the instance.
func cancelOperation(status *v1alpha1.WindowsInstanceStatus, now time.Time) error {
	if err := status.Cancel(status.Operation.ID, v1alpha1.ControllerRequester, now); err != nil {
		return fmt.Errorf("canceling the operation: %w", err)
	}
	return nil
}
