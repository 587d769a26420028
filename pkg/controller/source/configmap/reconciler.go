// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// fieldManager owns what this controller applies. It must never change.
const fieldManager = "windows-controller-configmap"

// Reasons of events.
const (
	reasonInvalidEntry = "InvalidEntry"
	reasonPoolConflict = "PoolConflict"
)

// names is what the reconciler needs of DNS. Neither method blocks.
type names interface {
	Resolve(name string) Resolution
	Retain(keep func(name string) bool)
}

// Reconciler makes pool and instances what the ConfigMap says. Its requests are
// pools by namespace and name; the pool of the ConfigMap is called like it.
type Reconciler struct {
	client    client.Client
	applier   *apply.Applier
	recorder  record.EventRecorder
	entries   *message.Reporter // tells of bad entries
	conflicts *message.Reporter // tells of a pool of that name with another source
	names     names
	configMap types.NamespacedName
	unguarded bool // remove without confirmation
	now       func() time.Time
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if req.NamespacedName == r.configMap {
		err = r.sync(ctx, pool)
	} else {
		err = r.refuse(ctx, pool)
	}
	return apply.RetryStale(ctx, err)
}

// refuse tells a pool that was made by hand that its ConfigMap is not read.
func (r *Reconciler) refuse(ctx context.Context, pool *v1alpha1.WindowsNodePool) error {
	if pool == nil || pool.Spec.Source.ConfigMap == nil {
		return nil
	}
	message := fmt.Sprintf("This ConfigMap is not read. Only ConfigMap %s is read, for the pool of the same name.", r.configMap)
	return r.setStatus(ctx, pool, 0, notFoundCondition(message))
}

// sync makes one pass over the ConfigMap. A nil pool means that there is none yet.
func (r *Reconciler) sync(ctx context.Context, pool *v1alpha1.WindowsNodePool) error {
	cm, err := object.Get(ctx, r.client, r.configMap, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	if cm != nil && !cm.DeletionTimestamp.IsZero() {
		cm = nil
	}
	if !r.mayUse(cm, pool) {
		return nil
	}
	var instances v1alpha1.WindowsInstanceList
	// The instances of the cache are shared: makePlan and what follows only read them.
	if err := r.client.List(ctx, &instances, client.InNamespace(r.configMap.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	asked := map[string]bool{}
	p := makePlan(r.configMap, cm, instances.Items, func(name string) Resolution {
		asked[name] = true
		return r.names.Resolve(name)
	})
	r.names.Retain(func(name string) bool { return asked[name] })

	if pool != nil && p.removesAll() && !r.unguarded && !confirmed(pool) {
		r.report(cm, p.problems)
		return r.askConfirmation(ctx, pool, cm != nil, &p)
	}
	if cm == nil {
		r.report(nil, nil)
		return r.windDown(ctx, pool, &p)
	}
	return r.converge(ctx, cm, pool, &p, instances.Items)
}

// mayUse says whether the pool can be worked with. Where it cannot, its deletion
// or its change is what brings the next pass.
func (r *Reconciler) mayUse(cm *corev1.ConfigMap, pool *v1alpha1.WindowsNodePool) bool {
	conflict := pool != nil && !asksFor(pool, r.configMap)
	if cm != nil {
		var problems map[string]string
		if conflict {
			problems = map[string]string{"": fmt.Sprintf("The WindowsNodePool %s has another source, so no instances are made. "+
				"Delete it, or move its hosts to a pool of another name.", pool.Name)}
		}
		r.conflicts.Report(cm, reasonPoolConflict, problems)
	}
	return !conflict && (pool == nil || pool.DeletionTimestamp.IsZero())
}

// converge makes pool and instances what the plan says.
func (r *Reconciler) converge(ctx context.Context, cm *corev1.ConfigMap, pool *v1alpha1.WindowsNodePool, p *plan, instances []v1alpha1.WindowsInstance) error {
	pool, err := r.applier.Pool(ctx, pool, poolFor(r.configMap))
	if err != nil {
		return err
	}
	refused, err := r.applyInstances(ctx, pool.UID, p.apply, instances)
	errs := []error{err, r.removeInstances(ctx, p.remove)}
	if confirmed(pool) && !p.removesAll() {
		errs = append(errs, r.withdrawConfirmation(ctx, pool))
	}
	problems := sortProblems(append(p.problems, refused...))
	r.report(cm, problems)
	good := len(p.apply) + len(p.waiting) - len(refused)
	errs = append(errs, r.setStatus(ctx, pool, good, syncedCondition(good, problems)))
	return errors.Join(errs...)
}

// applyInstances brings the instances of entries to the desired state. It returns the
// entries that the API refuses; an error of one of them holds up no other.
func (r *Reconciler) applyInstances(ctx context.Context, pool types.UID, entries []Entry, instances []v1alpha1.WindowsInstance) (refused []Problem, err error) {
	current := make(map[string]*v1alpha1.WindowsInstance, len(instances))
	for i := range instances {
		current[instances[i].Name] = &instances[i]
	}
	var errs []error
	for i := range entries {
		entry := &entries[i]
		have := current[entry.Name]
		written, err := r.applier.Instance(ctx, have, instanceFor(r.configMap, pool, entry))
		switch {
		case apierrors.IsInvalid(err):
			refused = append(refused, Problem{Key: entry.Key, Message: err.Error()})
		case err != nil:
			errs = append(errs, err)
		case written:
			log.FromContext(ctx).Info("Applied the instance of an entry",
				"instance", klog.KRef(r.configMap.Namespace, entry.Name), "entry", entry.Key, "created", have == nil)
		}
	}
	return refused, errors.Join(errs...)
}

func (r *Reconciler) removeInstances(ctx context.Context, instances []*v1alpha1.WindowsInstance) error {
	var errs []error
	for _, instance := range instances {
		if err := object.Delete(ctx, r.client, instance.DeepCopy()); err != nil {
			errs = append(errs, err)
			continue
		}
		log.FromContext(ctx).Info("Deleted an instance that the ConfigMap no longer asks for", "instance", klog.KObj(instance))
	}
	return errors.Join(errs...)
}

// windDown removes what was made from a ConfigMap that is gone: the instances
// first, because they may need the credentials of the pool until the end.
func (r *Reconciler) windDown(ctx context.Context, pool *v1alpha1.WindowsNodePool, p *plan) error {
	if pool == nil {
		return nil // the garbage collector takes what it left
	}
	if err := r.removeInstances(ctx, p.remove); err != nil {
		return err
	}
	if left := len(p.remove) + p.leaving; left > 0 {
		return r.setStatus(ctx, pool, 0, notFoundCondition(fmt.Sprintf("The ConfigMap %s was deleted; %s being removed.", r.configMap, areHosts(left))))
	}
	if pool.Annotations[v1alpha1.SourceAnnotation] != sourceOf(r.configMap) {
		// Somebody made the pool ahead of the ConfigMap, say to choose its credentials.
		return r.setStatus(ctx, pool, 0, notFoundCondition(fmt.Sprintf("There is no ConfigMap %s. Create it with one entry for each host.", r.configMap)))
	}
	if err := object.Delete(ctx, r.client, pool); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Deleted the pool of a ConfigMap that is gone", "pool", klog.KObj(pool))
	return nil
}

// askConfirmation keeps everything as it is and says so.
func (r *Reconciler) askConfirmation(ctx context.Context, pool *v1alpha1.WindowsNodePool, found bool, p *plan) error {
	condition := confirmationCondition(r.configMap, found, p)
	before := meta.FindStatusCondition(pool.Status.Conditions, condition.Type)
	if err := r.setStatus(ctx, pool, len(p.remove), condition); err != nil {
		return err
	}
	if before == nil || before.Reason != condition.Reason {
		r.recorder.Event(pool, corev1.EventTypeWarning, condition.Reason, message.EventNote(condition.Message))
	}
	return nil
}

func confirmed(pool *v1alpha1.WindowsNodePool) bool {
	return pool.Annotations[v1alpha1.ConfirmRemovalAnnotation] == "true"
}

// withdrawConfirmation takes a confirmation off that was used, or that nobody asked
// for: left in place it would confirm the next removal, which nobody thought of.
func (r *Reconciler) withdrawConfirmation(ctx context.Context, pool *v1alpha1.WindowsNodePool) error {
	without := pool.DeepCopy()
	delete(without.Annotations, v1alpha1.ConfirmRemovalAnnotation)
	if err := r.client.Patch(ctx, without, client.MergeFrom(pool)); err != nil {
		return fmt.Errorf("take the confirmation off WindowsNodePool %s: %w", klog.KObj(pool), err)
	}
	return nil
}

// report tells of bad entries on the ConfigMap; nil means that it is gone.
func (r *Reconciler) report(cm *corev1.ConfigMap, problems []Problem) {
	if cm == nil {
		r.entries.Forget(r.configMap)
		r.conflicts.Forget(r.configMap)
		return
	}
	messages := make(map[string]string, len(problems))
	for _, problem := range problems {
		messages["data["+problem.Key+"]"] = problem.String()
	}
	r.entries.Report(cm, reasonInvalidEntry, messages)
}

// setStatus applies the part of the status that the controller of a source owns.
func (r *Reconciler) setStatus(ctx context.Context, pool *v1alpha1.WindowsNodePool, desired int, condition metav1.Condition) error {
	condition.ObservedGeneration = pool.Generation
	_, err := r.applier.PoolStatus(ctx, pool, acwindowsv1alpha1.WindowsNodePoolStatus().
		WithDesiredReplicas(int32(desired)).
		WithConditions(apply.Condition(pool.Status.Conditions, condition, r.now())))
	return err
}
