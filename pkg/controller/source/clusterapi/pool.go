// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// poolManager owns what is applied to pools. It must never change.
const poolManager = "windows-controller-clusterapi-pool"

// emptyInterval is how often it is tried to delete a pool whose source is gone. Its hosts may still be on it.
const emptyInterval = 30 * time.Second

// PoolReconciler makes the pool of each MachineDeployment of Windows, and of each MachineSet that none controls, and tells pools how many
// hosts these ask for. Its requests are pools by namespace and name, which are those of their source.
type PoolReconciler struct {
	client    client.Client
	reader    client.Reader // of Cluster API
	cluster   client.ObjectKey
	applier   *apply.Applier
	conflicts *message.Reporter // tells of a pool of that name with another source
	now       func() time.Time
}

var _ reconcile.Reconciler = (*PoolReconciler)(nil)

// Reconcile makes one pass.
func (r *PoolReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != r.cluster.Namespace {
		return reconcile.Result{}, nil // of other sources
	}
	cluster, err := object.Get(ctx, r.reader, r.cluster, &capi.Cluster{})
	if err != nil {
		return reconcile.Result{}, err
	}
	s, err := sourceOf(ctx, r.reader, req.NamespacedName, r.cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil {
		return reconcile.Result{}, err
	}
	paused := snapshot{cluster: cluster}.pausedBy()
	switch {
	case s == nil:
		r.conflicts.Forget(req.NamespacedName)
	case paused == "" && s.object.GetDeletionTimestamp().IsZero() && s.windows:
		if pool, err = r.ensure(ctx, s, pool); err != nil {
			return apply.RetryStale(ctx, err)
		}
	}
	// A pool that was just made says nothing of its source yet, and brings the next pass.
	if pool == nil || pool.Spec.Source.ClusterAPI == nil || !pool.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if paused != "" {
		return reconcile.Result{}, nil // what was known stays
	}
	if s == nil && made(pool) {
		if gone, err := r.goneForAll(ctx, req.NamespacedName); err != nil || gone {
			return r.delete(ctx, pool, err)
		}
	}
	desired, condition := sourceStatus(pool, s, r.cluster)
	_, err = r.applier.PoolStatus(ctx, pool, acwindowsv1alpha1.WindowsNodePoolStatus().
		WithDesiredReplicas(desired).
		WithConditions(apply.Condition(pool.Status.Conditions, condition, r.now())))
	return reconcile.Result{}, err
}

// ensure brings the pool of a source to the desired state and returns it. A pool of that name with another source is left alone.
func (r *PoolReconciler) ensure(ctx context.Context, s *source, pool *v1alpha1.WindowsNodePool) (*v1alpha1.WindowsNodePool, error) {
	var problems map[string]string
	if pool != nil && !asksFor(pool, s) {
		problems = map[string]string{"": fmt.Sprintf("The WindowsNodePool %s has another source, so the Machines of this %s belong to no pool. "+
			"Move its hosts to a pool of another name, then delete it.", pool.Name, s.kind)}
	}
	r.conflicts.Report(s.object, reasonPoolConflict, problems)
	if len(problems) > 0 || pool != nil && !pool.DeletionTimestamp.IsZero() {
		return pool, nil
	}
	return r.applier.Pool(ctx, pool, poolFor(s))
}

// goneForAll says whether no Cluster has a source of that name: if another flag names another Cluster, its pools stay.
func (r *PoolReconciler) goneForAll(ctx context.Context, key client.ObjectKey) (bool, error) {
	deployment, err := object.Get(ctx, r.reader, key, &capi.MachineDeployment{})
	if err != nil || deployment != nil {
		return false, err
	}
	set, err := object.Get(ctx, r.reader, key, &capi.MachineSet{})
	return set == nil, err
}

// delete deletes a pool whose source is gone. The API server refuses that as long as it has hosts.
func (r *PoolReconciler) delete(ctx context.Context, pool *v1alpha1.WindowsNodePool, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	uid := pool.UID
	err = r.client.Delete(ctx, pool, client.Preconditions{UID: &uid})
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Deleted a pool whose source is gone", "pool", klog.KObj(pool))
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: emptyInterval}, nil
	case !object.Gone(err):
		return reconcile.Result{}, fmt.Errorf("delete WindowsNodePool %s: %w", client.ObjectKeyFromObject(pool), err)
	}
	return reconcile.Result{}, nil
}

// sourceOf returns the MachineDeployment of that name of a Cluster, else the MachineSet that none controls. Nil: there is none.
func sourceOf(ctx context.Context, reader client.Reader, key, cluster client.ObjectKey) (*source, error) {
	deployment, err := object.Get(ctx, reader, key, &capi.MachineDeployment{})
	if err != nil {
		return nil, err
	}
	if deployment != nil && deployment.Spec.ClusterName == cluster.Name {
		return sourceOfSet(v1alpha1.ClusterAPIMachineDeployment, deployment, &deployment.Spec), nil
	}
	set, err := object.Get(ctx, reader, key, &capi.MachineSet{})
	if err != nil || set == nil || set.Spec.ClusterName != cluster.Name || controlledBy(set, capi.KindMachineDeployment) != "" {
		return nil, err
	}
	return sourceOfSet(v1alpha1.ClusterAPIMachineSet, set, &set.Spec), nil
}

// controlledBy returns the name of the object of Cluster API of that kind that controls another one. Empty: none does.
func controlledBy(object metav1.Object, kind string) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != kind || !capi.Has(owner.APIVersion) {
		return ""
	}
	return owner.Name
}
