// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// orphanInterval is how often it is asked whether the namespaces of hosts exist.
const orphanInterval = 5 * time.Minute

// followOrphans ends what has lost its namespace, until ctx is done.
func (r *Reconciler) followOrphans(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.endOrphans(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Looking for objects whose namespace is gone")
		}
	}, orphanInterval)
	return nil
}

// endOrphans deletes instances and pools whose namespace has not existed for a while: somebody removed it by
// force while our API was away. Nobody could write or end them otherwise. The API server releases
// their hosts as it does when a namespace is deleted: nothing is removed from these. The namespace may also be
// missing because the etcd of the cluster was restored from a backup that is older than it. Then somebody creates it
// again, and has time for that.
func (r *Reconciler) endOrphans(ctx context.Context) error {
	var instances v1alpha1.WindowsInstanceList
	var pools v1alpha1.WindowsNodePoolList
	// The objects of the cache are shared; they are only read.
	if err := r.client.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing instances: %w", err)
	}
	if err := r.client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pools: %w", err)
	}
	objects := map[string][]client.Object{}
	for i := range instances.Items {
		objects[instances.Items[i].Namespace] = append(objects[instances.Items[i].Namespace], &instances.Items[i])
	}
	for i := range pools.Items { // after the instances that belong to them
		objects[pools.Items[i].Namespace] = append(objects[pools.Items[i].Namespace], &pools.Items[i])
	}
	now := r.clock.Now()
	for name := range r.missing {
		if objects[name] == nil {
			delete(r.missing, name)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		namespace, err := object.Get(ctx, r.live, types.NamespacedName{Name: name}, &corev1.Namespace{})
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil {
			continue
		}
		if namespace != nil {
			delete(r.missing, name)
			continue
		}
		since, known := r.missing[name]
		if !known {
			since = now
			r.missing[name] = since
		}
		if left := r.MissingNamespaceTimeout - now.Sub(since); left > 0 {
			if !known {
				log.FromContext(ctx).Info("A namespace with instances or pools is gone. Unless it is created again (kubectl create namespace NAME), they are deleted, and their hosts left as they are",
					"namespace", name, "objects", len(objects[name]), "after", left.String())
			}
			continue
		}
		for _, orphan := range objects[name] {
			log.FromContext(ctx).Info("The namespace of an object is gone: deleting it, and leaving its host as it is", "object", client.ObjectKeyFromObject(orphan))
			errs = append(errs, object.Delete(ctx, r.client, orphan))
		}
	}
	return utilerrors.NewAggregate(errs)
}
