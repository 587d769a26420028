// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// fieldManager owns what this controller applies. It must never change.
const fieldManager = "windows-controller-pool"

// Reconciler keeps the status of pools. Its requests are pools by namespace and name.
type Reconciler struct {
	client  client.Client
	applier *apply.Applier
	now     func() time.Time
	// blockedBy says what the hosts of a pool wait for.
	blockedBy func(poolKey) holdup
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil || pool == nil || !pool.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, err
	}
	var all v1alpha1.WindowsInstanceList
	// The instances of the cache are shared; they are only read.
	if err := r.client.List(ctx, &all, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list instances: %w", err)
	}
	var instances []*v1alpha1.WindowsInstance
	for i := range all.Items {
		if object.PoolName(&all.Items[i]) == pool.Name {
			instances = append(instances, &all.Items[i])
		}
	}
	status := computeStatus(pool, instances, r.blockedBy(poolKey{pool.Namespace, pool.Name}))
	want := acwindowsv1alpha1.WindowsNodePoolStatus().
		WithObservedGeneration(status.ObservedGeneration).
		WithPhase(status.Phase).
		WithReplicas(status.Replicas).
		WithReadyReplicas(status.ReadyReplicas).
		WithUpdatedReplicas(status.UpdatedReplicas).
		WithUnavailableReplicas(status.UnavailableReplicas).
		WithBlockedBy(status.BlockedBy)
	if pool.Spec.Source.Instances != nil {
		want.WithDesiredReplicas(status.DesiredReplicas)
	}
	for _, condition := range status.Conditions {
		want.WithConditions(apply.Condition(pool.Status.Conditions, condition, r.now()))
	}
	_, err = r.applier.PoolStatus(ctx, pool, want)
	return reconcile.Result{}, err
}
