// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

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
	published, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{r.Namespace: {}},
			Label:      labels.SelectorFromSet(labels.Set{managedByLabel: managedBy}),
			Transform:  strip,
		}},
	})
	if err != nil {
		return fmt.Errorf("making the cache of the services controller: %w", err)
	}
	if err := mgr.Add(published); err != nil {
		return fmt.Errorf("adding the cache of the services controller: %w", err)
	}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: document.ServicesConfigMapPrefix + r.Version}}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		// Without anything of ours in the cluster there is no other event at the start.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(request)
			return nil
		})).
		WatchesRawSource(source.Kind(published, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(context.Context, *corev1.ConfigMap) []reconcile.Request { return []reconcile.Request{request} },
		))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{request}
		}), builder.WithPredicates(versionsChanged)).
		WithOptions(controller.Options{RateLimiter: newRateLimiter()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the services controller: %w", err)
	}
	return nil
}

// retrySoonest is how long after the first failure it is tried again.
const retrySoonest = 100 * time.Millisecond

// newRateLimiter says when a pass that failed is made again. However long an input was missing, nothing tells of its coming: it is looked for as
// often as everything else.
func newRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retrySoonest, interval)
}

// strip drops what is not read from the cache, which only says that something changed.
func strip(object any) (any, error) {
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		configMap.ManagedFields = nil
		configMap.Data, configMap.BinaryData = nil, nil
	}
	return object, nil
}

// versionsChanged lets pass that a version may be used no more.
var versionsChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && versionsOf(e.ObjectOld) != versionsOf(e.ObjectNew)
	},
}
