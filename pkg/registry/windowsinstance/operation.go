// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// checkPreconditions refuses an action that was meant for another object, or for
// another state of it.
func checkPreconditions(instance *windows.WindowsInstance, p *metav1.Preconditions) error {
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != instance.UID:
		return conflict(instance, "the precondition asks for UID %s, and the instance has %s: it was deleted and another one has its name", *p.UID, instance.UID)
	case p.ResourceVersion != nil && *p.ResourceVersion != instance.ResourceVersion:
		return conflict(instance, "the precondition asks for resourceVersion %s, and the instance has %s: it has changed since; read it again", *p.ResourceVersion, instance.ResourceVersion)
	}
	return nil
}

// record makes o the operation of the instance. It refuses while another is active, and of an instance
// that nobody was let in for: whose host, and whose Node, it names is not known.
func record(instance *windows.WindowsInstance, o *v1alpha1.Operation) error {
	if instance.DeletionTimestamp != nil {
		return conflict(instance, "the instance is being removed")
	}
	served, err := served(instance)
	if err != nil {
		return err
	}
	if !served.Status.Identified() {
		if err := represented(served); err != nil {
			return err
		}
		return notKnown(served, "")
	}
	return changeStatus(instance, func(status *v1alpha1.WindowsInstanceStatus) error { return status.Record(o) })
}

// requestCancel requests the end of the operation with this ID.
func requestCancel(instance *windows.WindowsInstance, id, user string, now time.Time) error {
	return changeStatus(instance, func(status *v1alpha1.WindowsInstanceStatus) error { return status.Cancel(id, user, now) })
}

// changeStatus changes the status by the rules that the API server and the controller
// share, which are about the served version. That a rule refuses is a conflict.
func changeStatus(instance *windows.WindowsInstance, change func(*v1alpha1.WindowsInstanceStatus) error) error {
	status := &v1alpha1.WindowsInstanceStatus{}
	if err := v1alpha1.Convert_windows_WindowsInstanceStatus_To_v1alpha1_WindowsInstanceStatus(&instance.Status, status, nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("converting the status: %w", err))
	}
	if err := change(status); err != nil {
		return conflict(instance, "%w", err)
	}
	if err := v1alpha1.Convert_v1alpha1_WindowsInstanceStatus_To_windows_WindowsInstanceStatus(status, &instance.Status, nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("converting the status back: %w", err))
	}
	return nil
}

func conflict(instance *windows.WindowsInstance, format string, args ...any) error {
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(format, args...))
}
