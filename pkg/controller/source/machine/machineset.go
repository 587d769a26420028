// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// poolManager owns what is applied to pools. It must never change.
const poolManager = "windows-controller-machineset"

// maxFailures is how many Machines that failed are named in the condition of a pool and by events.
const maxFailures = 10

// SetReconciler makes the pool of each MachineSet of Windows, and tells pools how
// many hosts their MachineSet asks for. Its requests are pools by namespace and
// name; a MachineSet has the name of its pool.
type SetReconciler struct {
	client    client.Client
	applier   *apply.Applier
	conflicts *message.Reporter // tells of a pool of that name with another source
	failures  *message.Reporter // tells of Machines that failed
	platform  func(context.Context) (configv1.PlatformType, error)
	now       func() time.Time
}

var _ reconcile.Reconciler = (*SetReconciler)(nil)

// Reconcile makes one pass. A pool whose MachineSet is gone is left to the garbage
// collector, because its deletion may be meant to leave the pool.
func (r *SetReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set, err := object.Get(ctx, r.client, req.NamespacedName, &machinev1beta1.MachineSet{})
	if err != nil {
		return reconcile.Result{}, err
	}
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if set == nil {
		r.conflicts.Forget(req.NamespacedName)
		r.failures.Forget(req.NamespacedName)
	}
	if set != nil && set.DeletionTimestamp.IsZero() && isWindows(set.Spec.Template.Labels) {
		if pool, err = r.ensurePool(ctx, set, pool); err != nil {
			return apply.RetryStale(ctx, err)
		}
	}
	// A pool that was just made says nothing of its source yet, and brings the next pass.
	if pool == nil || pool.Spec.Source.MachineSet == nil || !pool.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	desired, condition := sourceStatus(pool, set, platform)
	var again time.Duration
	if condition.Status == metav1.ConditionTrue {
		failed, err := r.failed(ctx, set)
		if err != nil {
			return reconcile.Result{}, err
		}
		s, err := r.succession(ctx, pool)
		if err != nil {
			return reconcile.Result{}, err
		}
		if s.stopped {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonReplacementsStopped, s.why
		}
		if !s.until.IsZero() {
			again = max(s.until.Sub(r.now()), time.Second) // it may have come meanwhile
		}
		condition.Message = message.ConditionMessage(strings.Join(append([]string{condition.Message}, failed...), "\n"))
	}
	_, err = r.applier.PoolStatus(ctx, pool, acwindowsv1alpha1.WindowsNodePoolStatus().
		WithDesiredReplicas(desired).
		WithConditions(apply.Condition(pool.Status.Conditions, condition, r.now())))
	return reconcile.Result{RequeueAfter: again}, err
}

// succession is whether Machines of a pool are still replaced when their hosts refuse the key.
func (r *SetReconciler) succession(ctx context.Context, pool *v1alpha1.WindowsNodePool) (succession, error) {
	if _, replaced := pool.Annotations[v1alpha1.ReplacedMachineAnnotation]; !replaced {
		return succession{}, nil
	}
	var instances v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &instances, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return succession{}, fmt.Errorf("list the instances of WindowsNodePool %s: %w", client.ObjectKeyFromObject(pool), err)
	}
	return successionOf(pool, membersOf(pool, instances.Items), r.now()), nil
}

// failed says which Machines of a MachineSet have failed, one a line, and by an event about each. The Machine API never
// tries one again, and its MachineSet counts it, so that somebody has to delete it.
func (r *SetReconciler) failed(ctx context.Context, set *machinev1beta1.MachineSet) ([]string, error) {
	var machines machinev1beta1.MachineList
	if err := r.client.List(ctx, &machines, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Machines of MachineSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	failed := map[string]string{}
	for i := range machines.Items {
		if machine := &machines.Items[i]; setOf(machine) == set.Name && hasFailed(machine) {
			failed[machine.Name] = failure(machine)
		}
	}
	named := map[string]string{}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if len(lines) == maxFailures {
			lines = append(lines, fmt.Sprintf("%d more Machines have failed.", len(failed)-maxFailures))
			break
		}
		named[name] = failed[name]
		lines = append(lines, failed[name])
	}
	r.failures.Report(set, reasonMachineFailed, named)
	return lines, nil
}

// ensurePool brings the pool of a MachineSet to the desired state and returns it. A pool
// of that name with another source is left alone.
func (r *SetReconciler) ensurePool(ctx context.Context, set *machinev1beta1.MachineSet, pool *v1alpha1.WindowsNodePool) (*v1alpha1.WindowsNodePool, error) {
	var problems map[string]string
	if pool != nil && !asksFor(pool, set.Name) {
		problems = map[string]string{"": fmt.Sprintf("The WindowsNodePool %s has another source, so the Machines of this MachineSet belong to no pool. "+
			"Move its hosts to a pool of another name, then delete it.", pool.Name)}
	}
	r.conflicts.Report(set, reasonPoolConflict, problems)
	if len(problems) > 0 || pool != nil && !pool.DeletionTimestamp.IsZero() {
		return pool, nil
	}
	return r.applier.Pool(ctx, pool, poolFor(set))
}
