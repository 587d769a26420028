// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// notForeign says why a host is not that of another operator. Empty: it is.
func notForeign(instance *v1alpha1.WindowsInstance) string {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionConfigured)
	switch {
	case c == nil:
		return "nothing is known of the host yet"
	case instance.Status.ReleaseBegunBy() != nil:
		return c.Message
	case c.Reason == v1alpha1.ReasonForeignNode || c.Reason == v1alpha1.ReasonManagedByWMCO:
		return ""
	case c.Reason == v1alpha1.ReasonNotTried, c.Reason == v1alpha1.ReasonConfiguring && !instance.Status.Operation.Active():
		return fmt.Sprintf("it is not known yet whether the host is left to another operator; try again when the condition Configured says so. It says now: %s", c.Message)
	}
	return fmt.Sprintf("the host is not left to another operator: %s", c.Message)
}
