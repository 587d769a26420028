// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// controllerName names the controller in events, logs and metrics.
const controllerName = "windows-configmap"

const (
	// lookupDelay collects the outcomes of many lookups into one pass.
	lookupDelay = time.Second
	// lookupTimeout bounds one lookup.
	lookupTimeout = 5 * time.Second
	// lookupInterval is the time after which a name is looked up again.
	lookupInterval = 3 * time.Minute
	// lookupWorkers is how many names are looked up at the same time.
	lookupWorkers = 16
)

// SetupWithManager adds the controller to mgr. The cache of mgr must keep managed
// fields of WindowsInstances and WindowsNodePools.
//
// RBAC it needs, in the namespace of the ConfigMap unless said otherwise:
//
//	""                    configmaps                get list watch
//	""                    events                    create patch
//	windows.openshift.io  windowsnodepools          get list watch (all namespaces) create patch delete
//	windows.openshift.io  windowsnodepools/status   patch
//	windows.openshift.io  windowsinstances          get list watch (all namespaces) create patch delete
//	windows.openshift.io  windowshostkeys           trust
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	configMap := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}

	lookups := make(chan event.GenericEvent, 1)
	lookup := func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}
	resolver := newResolver(lookup, lookupTimeout, lookupInterval, lookupWorkers, func() {
		select {
		case lookups <- event.GenericEvent{}:
		default: // one that was not picked up yet says the same
		}
	})
	if err := mgr.Add(resolver); err != nil {
		return fmt.Errorf("adding the resolver of the ConfigMap controller: %w", err)
	}
	r := &Reconciler{
		client:    mgr.GetClient(),
		applier:   &apply.Applier{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), FieldManager: fieldManager},
		recorder:  o.Recorder,
		entries:   message.NewReporter(o.Recorder, mgr.GetScheme()),
		foreign:   message.NewReporter(o.Recorder, mgr.GetScheme()),
		conflicts: message.NewReporter(o.Recorder, mgr.GetScheme()),
		names:     resolver,
		configMap: configMap,
		limit:     ration.Limit{Most: o.MaxRemovals, Window: o.RemovalWindow},
		unguarded: o.RemoveWithoutConfirmation,
		now:       time.Now,
	}
	toPool := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		if instance, ok := obj.(*v1alpha1.WindowsInstance); ok {
			r.left.see(instance, configMap)
		}
		return []reconcile.Request{{NamespacedName: configMap}}
	})
	inNamespace := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetNamespace() == o.Namespace })
	ofConfigMap := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		pool, ok := obj.(*v1alpha1.WindowsNodePool)
		return ok && (pool.Spec.Source.ConfigMap != nil || client.ObjectKeyFromObject(pool) == configMap)
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&corev1.ConfigMap{}, builder.WithPredicates(inNamespace, predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == o.Name }))).
		Watches(&v1alpha1.WindowsNodePool{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(ofConfigMap, watch.DesiredStateChanged())).
		Watches(&v1alpha1.WindowsInstance{}, toPool, builder.WithPredicates(inNamespace, watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Channel(lookups, handler.Funcs{
			GenericFunc: func(_ context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				queue.AddAfter(reconcile.Request{NamespacedName: configMap}, lookupDelay)
			},
		})).
		WithOptions(watch.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the ConfigMap controller: %w", err)
	}
	return nil
}

// CacheByObject returns what a manager should keep of ConfigMaps when nothing else
// of it reads any: only the one that o names.
func CacheByObject(o Options) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{o.Namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", o.Name),
		},
	}
}
