// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ConfigMaps returns what brings a controller the only request that it has: its start, as there is no other event without anything in the cluster, and
// each change of the selected ConfigMaps. A cache of their own watches these, without what is in them, whatever that of mgr is restricted to. Mgr runs it.
func ConfigMaps(mgr ctrl.Manager, selected cache.ByObject, request reconcile.Request) (start, changes source.Source, err error) {
	selected.Transform = withoutContents
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject:   map[client.Object]cache.ByObject{&corev1.ConfigMap{}: selected},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making a cache of ConfigMaps: %w", err)
	}
	if err := mgr.Add(own); err != nil {
		return nil, nil, fmt.Errorf("adding a cache of ConfigMaps: %w", err)
	}
	start = source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(request)
		return nil
	})
	return start, source.Kind(own, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, *corev1.ConfigMap) []reconcile.Request { return []reconcile.Request{request} },
	)), nil
}

// withoutContents drops what is not read from the cache, which only says that something changed.
func withoutContents(object any) (any, error) {
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		configMap.ManagedFields, configMap.Data, configMap.BinaryData = nil, nil, nil
	}
	return object, nil
}
