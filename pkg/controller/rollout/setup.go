// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-pool"
	// workers is how many pools are worked on at the same time.
	workers = 2
)

// SetupWithManager adds the controller to mgr. The cache of mgr must keep managed
// fields of WindowsNodePools.
//
// RBAC it needs, in all namespaces:
//
//	windows.openshift.io  windowsnodepools          get list watch
//	windows.openshift.io  windowsnodepools/status   patch
//	windows.openshift.io  windowsinstances          get list watch
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	register(o.Registerer, o.Disruptions)
	r := &Reconciler{
		client: mgr.GetClient(), now: time.Now,
		applier: &apply.Applier{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), FieldManager: fieldManager},
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsNodePool{}).
		// An instance that goes over to another pool concerns both: the handler maps
		// the instance as it was and as it is.
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(poolOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the rollout controller: %w", err)
	}
	return nil
}

// poolOf returns the pool of an instance.
func poolOf(_ context.Context, obj client.Object) []reconcile.Request {
	instance, ok := obj.(*v1alpha1.WindowsInstance)
	if !ok || instance.Spec.PoolRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: instance.Namespace, Name: instance.Spec.PoolRef.Name}}}
}
