// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// controllerName names the controller in logs and metrics.
const controllerName = "windows-services"

// DefaultInterval is the default of [Options.Interval].
const DefaultInterval = time.Minute

// Source knows what is to be published.
type Source interface {
	// Published returns the services of hosts as the cluster asks for them now. The
	// error says what of the cluster is missing.
	Published(ctx context.Context) (*document.PublishedServices, error)
}

// Options configure the controller.
type Options struct {
	// Source of what is published. Required.
	Source Source
	// Namespace of the operator. Required.
	Namespace string
	// Version to publish under: [Version] of the release. Required.
	Version string
	// Recorder takes the events. Required.
	Recorder record.EventRecorder
	// Interval is how often Source is asked without anything having changed that is
	// watched: what the services follow from is all over the cluster. Default
	// [DefaultInterval].
	Interval time.Duration
}

// complete fills in the defaults, or says everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs []error
	for name, missing := range map[string]bool{"Source": o.Source == nil, "Namespace": o.Namespace == "", "Recorder": o.Recorder == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("%s is required", name))
		}
	}
	if problems := validation.IsDNS1123Subdomain(document.ServicesConfigMapPrefix + o.Version); len(problems) > 0 || o.Version == "" {
		errs = append(errs, fmt.Errorf("version %q cannot be the end of a name", o.Version))
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	return o, errors.Join(errs...)
}

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
	o, err := o.complete()
	if err != nil {
		return fmt.Errorf("options of the services controller: %w", err)
	}
	published, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{o.Namespace: {}},
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
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.Namespace, Name: document.ServicesConfigMapPrefix + o.Version}}
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
		Complete(&Reconciler{Options: o, live: mgr.GetAPIReader(), client: mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("adding the services controller: %w", err)
	}
	return nil
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
