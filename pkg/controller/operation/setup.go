// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// controllerName names the controller in logs, metrics and events.
const controllerName = "windows-operation"

// SetupWithManager adds the controller to a manager: its watch, and the runnable that
// runs operations.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Superseded == nil || o.Represented == nil || o.Labels == nil {
		// Nobody would keep two instances from one host, or know of pods that a kubelet rejects.
		return errors.New("options of the operation controller: Superseded, Represented and Labels are required")
	}
	r := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), o)
	if err := mgr.Add(r.runner); err != nil {
		return fmt.Errorf("adding the runner of operations: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(operationChanged)).
		WatchesRawSource(source.Channel(r.wake, &handler.EnqueueRequestForObject{})).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the operation controller: %w", err)
	}
	return nil
}

// operationChanged lets pass what may begin or end an operation, and not its progress.
var operationChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (!equality.Semantic.DeepEqual(decisive(before), decisive(after)) ||
			before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
	},
}

// decisive is the part of an operation that the reconciler decides by.
func decisive(instance *v1alpha1.WindowsInstance) [3]string {
	op := instance.Status.Operation
	if op == nil {
		return [3]string{}
	}
	return [3]string{op.ID, string(op.Phase), strconv.FormatBool(op.CancelRequestedAt != nil)}
}
