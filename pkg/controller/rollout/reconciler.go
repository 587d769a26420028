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

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-pool"
	// fieldManager owns what this controller applies. It must never change.
	fieldManager = "windows-controller-pool"
)

// Options are the settings of the controller. The zero value is ready to use.
type Options struct {
	// Workers is how many pools are worked on at the same time. Default 2.
	Workers int
}

// SetupWithManager adds the controller to mgr. The cache of mgr must keep managed
// fields of WindowsNodePools.
//
// RBAC it needs, in all namespaces:
//
//	windows.openshift.io  windowsnodepools          get list watch
//	windows.openshift.io  windowsnodepools/status   patch
//	windows.openshift.io  windowsinstances          get list watch
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Workers <= 0 {
		o.Workers = 2
	}
	r := &reconciler{
		client:  mgr.GetClient(),
		applier: &apply.Applier{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), FieldManager: fieldManager},
		now:     time.Now,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&windowsv1alpha1.WindowsNodePool{}).
		// An instance that goes over to another pool concerns both: the handler maps
		// the instance as it was and as it is.
		Watches(&windowsv1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(poolOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the pool controller: %w", err)
	}
	return nil
}

// poolOf returns the pool of an instance.
func poolOf(_ context.Context, obj client.Object) []reconcile.Request {
	instance, ok := obj.(*windowsv1alpha1.WindowsInstance)
	if !ok || instance.Spec.PoolRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: instance.Namespace, Name: instance.Spec.PoolRef.Name}}}
}

// reconciler keeps the status of pools. Its requests are pools by namespace and name.
type reconciler struct {
	client  client.Client
	applier *apply.Applier
	now     func() time.Time
}

// Reconcile makes one pass.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &windowsv1alpha1.WindowsNodePool{})
	if err != nil || pool == nil || !pool.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}
	var all windowsv1alpha1.WindowsInstanceList
	// The instances of the cache are shared; they are only read.
	if err := r.client.List(ctx, &all, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list instances: %w", err)
	}
	var instances []*windowsv1alpha1.WindowsInstance
	for i := range all.Items {
		if ref := all.Items[i].Spec.PoolRef; ref != nil && ref.Name == pool.Name {
			instances = append(instances, &all.Items[i])
		}
	}
	status := computeStatus(pool, instances)
	want := acwindowsv1alpha1.WindowsNodePoolStatus().
		WithObservedGeneration(status.ObservedGeneration).
		WithPhase(status.Phase).
		WithReplicas(status.Replicas).
		WithReadyReplicas(status.ReadyReplicas).
		WithUpdatedReplicas(status.UpdatedReplicas).
		WithUnavailableReplicas(status.UnavailableReplicas)
	if pool.Spec.Source.Instances != nil {
		want.WithDesiredReplicas(status.DesiredReplicas)
	}
	for _, condition := range status.Conditions {
		want.WithConditions(apply.Condition(pool.Status.Conditions, condition, r.now()))
	}
	_, err = r.applier.PoolStatus(ctx, pool, want)
	return ctrl.Result{}, err
}
