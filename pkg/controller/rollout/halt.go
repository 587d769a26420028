// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// haltedBy keeps a configuration that broke a host from the next one of its pool: the hosts
// of a pool, or of a namespace in no pool, have the same desired configuration, so that what
// ends the containers of one and then fails, or has its Node go down later, would do so with
// all, one after the other. It returns the host that broke and the operation that did it, nil
// if there is none.
//
// A host that broke itself may be tried again, which is how a correction gets to it
// first, and how the halt ends: nothing more is out of service because of that.
// What a person asks for is never kept from a host. Nor do hosts count that are being deleted.
func haltedBy(instance *v1alpha1.WindowsInstance, all []v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstance, *v1alpha1.Operation) {
	if !instance.Status.Operation.ByController() || brokenBy(&instance.Status) != nil {
		return nil, nil
	}
	for i := range all {
		other := &all[i]
		if other.UID == instance.UID || other.Namespace != instance.Namespace || !other.DeletionTimestamp.IsZero() ||
			object.PoolName(other) != object.PoolName(instance) {
			continue
		}
		if op := brokenBy(&other.Status); op != nil {
			return other, op
		}
		if op := wentDownWith(&other.Status); op != nil {
			return other, op
		}
	}
	return nil, nil
}

// wentDownWith returns the configuration that a host has which is to have it, and whose Node is
// not ready although that succeeded. Nil: there is none. What an operation does to the host
// now, as a reboot, says nothing about its configuration.
func wentDownWith(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.Operation {
	op := status.NewestOperation(v1alpha1.OperationReconfigure)
	if status.Operation.Active() || op == nil || op.Phase != v1alpha1.OperationSucceeded || op.Revision != status.DesiredRevision || !disturbs(op) {
		return nil
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionNodeReady)
	if c == nil || c.Reason != v1alpha1.ReasonNodeNotReady {
		return nil
	}
	return op
}

// disturbs says whether a configuration has changed a host that is a node at a cost for it. One whose
// kubelet could not report was out of service before, as one that is no node yet.
func disturbs(op *v1alpha1.Operation) bool {
	return op.Node != nil && !op.JoinsAgain && op.Impact != v1alpha1.ImpactNone && op.MayHaveChangedHost()
}

// brokenBy returns the configuration that changed a host which is a node at a cost for it, and
// failed, with none since that succeeded. Nil: there is none. One that failed before it changed
// the host, as when pods did not leave, says nothing about the desired configuration, nor does one
// that could not have the host join again.
func brokenBy(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.Operation {
	var oldest *v1alpha1.Operation
	cordoned := false
	for n, op := range status.Operations() {
		if op.Type != v1alpha1.OperationReconfigure {
			continue
		}
		switch op.Phase {
		case v1alpha1.OperationSucceeded:
			return nil
		case v1alpha1.OperationFailed:
			if disturbs(op) && n < v1alpha1.MaxHistory {
				return op
			}
			oldest, cordoned = op, cordoned || op.Node != nil && op.Node.WasUnschedulable
		}
	}
	// Attempts that failed, as a broken host could not be reached, may have pushed the one
	// out of the history that broke it; what the oldest that is left says may be about that one. It has
	// left its Node cordoned, which those after it have found. So does one that could not have the host
	// join again.
	if len(status.History) >= v1alpha1.MaxHistory && cordoned && !oldest.JoinsAgain {
		return oldest
	}
	return nil
}

// describeHalt says what a host waits for because another one broke.
func describeHalt(instance, other *v1alpha1.WindowsInstance, op *v1alpha1.Operation) string {
	outcome, end := "and failed", "has been configured"
	if op.Phase == v1alpha1.OperationSucceeded {
		outcome, end = "and its Node is not ready any more", "is ready"
	}
	where, leaves := "of the same pool", "leaves pool "+object.PoolName(instance)
	if object.PoolName(instance) == "" {
		where, leaves = "in the same namespace", "gets a pool"
	}
	return fmt.Sprintf("Waiting: operation %[2]s changed host %[1]s %[8]s %[6]s. "+
		"This host continues when %[1]s %[7]s, is deleted or %[3]s. "+
		"What is wrong with %[1]s: kubectl windows describe %[1]s -n %[4]s. "+
		"To configure this host anyway: kubectl windows cancel %[5]s -n %[4]s, and then kubectl windows reconfigure %[5]s -n %[4]s",
		other.Name, op.ID, leaves, instance.Namespace, instance.Name, outcome, end, where)
}
