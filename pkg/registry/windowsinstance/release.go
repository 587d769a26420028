// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// notToRelease says why a host is not given back. Empty: it is, or what a release began is completed.
func notToRelease(instance *v1alpha1.WindowsInstance) string {
	status := &instance.Status
	released := status.ReleasedBy()
	switch {
	case released != nil && released.Phase == v1alpha1.OperationSucceeded:
		return fmt.Sprintf("operation %s has released the host already. To take it back: kubectl windows adopt %s -n %s", released.ID, instance.Name, instance.Namespace)
	case released == nil && status.ReleaseBegunBy() == nil && !status.MayHaveChangedHost():
		text := "this operator has not configured the host, so that there is nothing to release"
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured); c != nil {
			text += ". " + c.Message
		}
		return text
	case status.Node == nil:
		return fmt.Sprintf("the host has no Node by which the Windows Machine Config Operator would take it on. To have that configure it as a new one, delete the instance: kubectl delete windowsinstance %s -n %s", instance.Name, instance.Namespace)
	}
	return ""
}
