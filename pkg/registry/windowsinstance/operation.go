// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// operationIDLength is how many random characters an ID has besides its type: enough
// for the few operations that one instance ever has.
const operationIDLength = 8

// newOperationID returns an ID that people can say and type.
func newOperationID(t windows.OperationType) string {
	return strings.ToLower(string(t)) + "-" + rand.String(operationIDLength)
}

// active says whether an operation waits to be carried out, or is.
func active(o *windows.Operation) bool {
	return o != nil && (o.Phase == windows.OperationPending || o.Phase == windows.OperationRunning)
}

// checkPreconditions refuses an action that was meant for another object, or for
// another state of it.
func checkPreconditions(instance *windows.WindowsInstance, p *metav1.Preconditions) error {
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != instance.UID:
		return conflict(instance, "the precondition asks for UID %s, and the instance has %s: another one has taken its name", *p.UID, instance.UID)
	case p.ResourceVersion != nil && *p.ResourceVersion != instance.ResourceVersion:
		return conflict(instance, "the precondition asks for resourceVersion %s, and the instance has %s: it has changed since; read it again", *p.ResourceVersion, instance.ResourceVersion)
	}
	return nil
}

// record makes o the operation of the instance. It refuses while another is active:
// two would work on the same node.
func record(instance *windows.WindowsInstance, o *windows.Operation) error {
	if instance.DeletionTimestamp != nil {
		return conflict(instance, "the instance is being removed")
	}
	if last := instance.Status.Operation; active(last) {
		return conflict(instance, "operation %s, which %s asked for at %s, is %s: wait until it has ended, or cancel it",
			last.ID, last.RequestedBy, last.RequestedAt.UTC().Format(time.RFC3339), strings.ToLower(string(last.Phase)))
	}
	if last := instance.Status.Operation; last != nil {
		instance.Status.History = append([]windows.Operation{*last}, instance.Status.History...)
		if len(instance.Status.History) > v1alpha1.MaxHistory {
			instance.Status.History = instance.Status.History[:v1alpha1.MaxHistory]
		}
	}
	instance.Status.Operation = o
	return nil
}

// requestCancel notes that the operation with this ID shall end. Asking twice is the
// same as asking once.
func requestCancel(instance *windows.WindowsInstance, id, user string, now time.Time) error {
	o := instance.Status.Operation
	switch {
	case o == nil:
		return conflict(instance, "there is no operation %s: the instance never had any", id)
	case o.ID != id && active(o):
		return conflict(instance, "operation %s does not run; the one that does is %s, which %s asked for", id, o.ID, o.RequestedBy)
	case o.ID != id:
		return conflict(instance, "operation %s does not run, nor does any other", id)
	case !active(o):
		return conflict(instance, "operation %s has ended already: %s", id, strings.ToLower(string(o.Phase)))
	case o.CancelRequestedAt != nil:
		return nil
	}
	o.CancelRequestedBy = user
	o.CancelRequestedAt = new(metav1.NewTime(now))
	return nil
}

func conflict(instance *windows.WindowsInstance, format string, args ...any) error {
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(format, args...))
}
