// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// controllerName names the controller in logs and metrics.
const controllerName = "windows-services"

// SetupWithManager adds the controller to mgr. It is for a controller that configures
// hosts. The ConfigMaps are watched by a cache of its own, whatever that of mgr is
// restricted to; that of mgr must keep the annotations of Nodes with their versions.
//
// RBAC it needs:
//
//	""  nodes       get list watch                      in all namespaces
//	""  configmaps  get list watch create delete        in the namespace of the operator
//	""  events      create patch                        in the namespace of the operator
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Options: o, live: mgr.GetAPIReader(), client: mgr.GetClient()}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: document.ServicesConfigMapPrefix + r.Version}}
	start, published, err := watch.ConfigMaps(mgr, cache.ByObject{
		Namespaces: map[string]cache.Config{r.Namespace: {}},
		Label:      labels.SelectorFromSet(labels.Set{managedByLabel: managedBy}),
	}, request)
	if err != nil {
		return fmt.Errorf("watching what the services controller publishes: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(start).
		WatchesRawSource(published).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{request}
		}), builder.WithPredicates(versionsChanged)).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the services controller: %w", err)
	}
	return nil
}

// versionsChanged lets pass that a version may be used no more.
var versionsChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && versionsOf(e.ObjectOld) != versionsOf(e.ObjectNew)
	},
}
