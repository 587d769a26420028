// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// controllerName names the controller in logs, metrics and events.
const controllerName = "windows-configuration"

// SetupWithManager adds the controller to a manager. It works while this process leads.
//
// RBAC it needs, in all namespaces:
//
//	windows.openshift.io  windowsinstances         get list watch patch
//	windows.openshift.io  windowshosts             abandon
//	windows.openshift.io  windowsinstances/status  update
//	windows.openshift.io  windowsnodepools         get list watch
//	(core)                namespaces               get
//	(core)                nodes                    delete
//	(core)                events                   create patch
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r, err := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}
	if r.Registerer != nil {
		if err := r.standings.register(r.Registerer); err != nil {
			return err
		}
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsInstance{}).
		Watches(&v1alpha1.WindowsNodePool{}, handler.EnqueueRequestsFromMapFunc(r.membersOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the configuration controller: %w", err)
	}
	return nil
}

// membersOf maps a pool to its instances.
func (r *Reconciler) membersOf(ctx context.Context, pool client.Object) []reconcile.Request {
	return watch.MembersOf(ctx, r.client, pool)
}
