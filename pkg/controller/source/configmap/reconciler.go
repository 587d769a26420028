// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/openshift/windows-instance-api/pkg/controller/internal/confirm"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
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
	foreign   *message.Reporter // tells of entries for the hosts of other instances
	conflicts *message.Reporter // tells of a pool of that name with another source
	names     names
	configMap types.NamespacedName
	limit     ration.Limit
	unguarded bool // remove without confirmation
	now       func() time.Time

	// deleted has the instances that this controller deleted and that are still there, as far as the
	// cache knows.
	deleted map[types.UID]bool
	left    leavers
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if req.NamespacedName != r.configMap {
		return reconcile.Result{}, r.refuse(ctx, pool)
	}
	again, err := r.sync(ctx, pool)
	if err != nil || again.IsZero() {
		return apply.RetryStale(ctx, err)
	}
	return reconcile.Result{RequeueAfter: max(again.Sub(r.now()), time.Second)}, nil
}

// refuse tells a pool that was made by hand that its ConfigMap is not read.
func (r *Reconciler) refuse(ctx context.Context, pool *v1alpha1.WindowsNodePool) error {
	if pool == nil || pool.Spec.Source.ConfigMap == nil {
		return nil
	}
	message := fmt.Sprintf("This ConfigMap is not read. Only ConfigMap %s is read, for the pool of the same name.", r.configMap)
	return r.setStatus(ctx, pool, 0, nil, notFoundCondition(message))
}

// sync makes one pass over the ConfigMap. A nil pool means that there is none yet. The time
// is when to make another one if nothing changes; zero: then.
func (r *Reconciler) sync(ctx context.Context, pool *v1alpha1.WindowsNodePool) (again time.Time, err error) {
	cm, err := object.Get(ctx, r.client, r.configMap, &corev1.ConfigMap{})
	if err != nil {
		return again, err
	}
	if cm != nil && !cm.DeletionTimestamp.IsZero() {
		cm = nil
	}
	if !r.mayUse(cm, pool) {
		return again, nil
	}
	var instances v1alpha1.WindowsInstanceList
	// The instances of the cache are shared: makePlan and what follows only read them.
	if err := r.client.List(ctx, &instances, client.InNamespace(r.configMap.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return again, fmt.Errorf("list instances: %w", err)
	}
	r.forgetDeleted(instances.Items)
	asked := map[string]bool{}
	p := makePlan(r.configMap, cm, instances.Items, r.isDeleted, func(name string) Resolution {
		asked[name] = true
		return r.names.Resolve(name)
	})
	r.names.Retain(func(name string) bool { return asked[name] })
	if err := r.leaveOthers(ctx, &p); err != nil {
		return again, err
	}
	if cm == nil && pool == nil && len(p.ours) == 0 {
		return again, nil
	}
	// Also without a ConfigMap: a pool that vanished before its hosts is where a question is asked.
	if cm != nil || pool == nil {
		if pool, err = r.applier.Pool(ctx, pool, poolFor(r.configMap)); err != nil {
			return again, err
		}
	}
	for i := range instances.Items {
		r.left.see(&instances.Items[i], r.configMap)
	}
	r.left.retain(&p, r.now())
	failed := r.applyInstances(ctx, &p)
	d, err := r.ration(ctx, pool, &p)
	if err != nil {
		return again, errors.Join(failed, err)
	}
	if cm == nil {
		err = r.windDown(ctx, pool, &p, &d, instances.Items)
	} else {
		err = errors.Join(failed, r.converge(ctx, cm, pool, &p, &d))
	}
	again = r.limit.Expiry(d.Recent)
	if soon := r.now().Add(laterInterval); (d.Later > 0 || d.Held || len(p.foreign) > 0) && (again.IsZero() || soon.Before(again)) {
		again = soon // how the removals before it go, whether their hosts answer, or instances elsewhere go, does not wake this controller
	}
	return again, err
}

// forgetDeleted forgets the instances that are gone.
func (r *Reconciler) forgetDeleted(instances []v1alpha1.WindowsInstance) {
	there := map[types.UID]bool{}
	for i := range instances {
		if uid := instances[i].UID; r.deleted[uid] {
			there[uid] = true
		}
	}
	r.deleted = there
}

func (r *Reconciler) isDeleted(instance *v1alpha1.WindowsInstance) bool {
	return !instance.DeletionTimestamp.IsZero() || r.deleted[instance.UID]
}

// mayUse says whether the pool can be worked with. Where it cannot, its deletion
// or its change is what brings the next pass.
func (r *Reconciler) mayUse(cm *corev1.ConfigMap, pool *v1alpha1.WindowsNodePool) bool {
	conflict := pool != nil && !asksFor(pool, r.configMap)
	if cm != nil {
		var problems map[string]string
		if conflict {
			problems = map[string]string{"": fmt.Sprintf("The WindowsNodePool %s has another source, so no instances are made. "+
				"Move its hosts to a pool of another name, then delete it.", pool.Name)}
		}
		r.conflicts.Report(cm, reasonPoolConflict, problems)
	}
	return !conflict && (pool == nil || pool.DeletionTimestamp.IsZero())
}

// converge says what became of the entries, and begins removals.
func (r *Reconciler) converge(ctx context.Context, cm *corev1.ConfigMap, pool *v1alpha1.WindowsNodePool, p *plan, d *ration.Removals) error {
	problems := sortProblems(p.problems)
	report(r.entries, cm, reasonInvalidEntry, problems)
	report(r.foreign, cm, reasonForeignEntry, p.foreign)
	good := len(p.apply) + len(p.waiting)
	condition := syncedCondition(good, d.Later, problems)
	condition.Message += describeForeign(p.foreign)
	switch {
	case d.Held && !p.needsCorrection():
		condition.Message += fmt.Sprintf("\nThe removal of %s waits. To confirm it now: %s\n%s", words.Count(len(d.Waiting), "host"), confirm.Command(r.configMap, d.Waiting), waitsFor(p.unready))
	case len(d.Waiting) > 0:
		condition = r.confirmation(whatLacks(p), d, p)
	}
	return r.remove(ctx, pool, d, good+len(d.Waiting), condition)
}

// remove writes the status, which remembers the removals, and then begins them: a removal
// that was not remembered would not count. Before that it takes a confirmation off, whatever it
// is for: it counts once.
func (r *Reconciler) remove(ctx context.Context, pool *v1alpha1.WindowsNodePool, d *ration.Removals, desired int, condition metav1.Condition) error {
	withdrawn, err := confirm.Withdraw(ctx, r.client, pool)
	if err != nil {
		return err
	}
	if err := r.setStatus(ctx, pool, desired, d.Recent, condition); err != nil {
		return err
	}
	if len(d.Waiting) > 0 {
		r.ask(pool, d.Waiting, condition, withdrawn)
	}
	return r.removeInstances(ctx, d.Now)
}

// ask emits an event with what the condition asks, when that is new, or when somebody has
// confirmed something else. What only waits for a moment asks nobody.
func (r *Reconciler) ask(pool *v1alpha1.WindowsNodePool, waiting []*v1alpha1.WindowsInstance, condition metav1.Condition, refused bool) {
	text := condition.Message
	before := meta.FindStatusCondition(pool.Status.Conditions, condition.Type)
	switch {
	case refused:
		text = confirm.Refusal(text)
	case condition.Reason != v1alpha1.ReasonConfirmationNeeded,
		before != nil && before.Reason == condition.Reason && strings.Contains(before.Message, confirm.Command(r.configMap, waiting)):
		return
	}
	r.recorder.Event(pool, corev1.EventTypeWarning, v1alpha1.ReasonConfirmationNeeded, message.EventNote(text))
}

// applyInstances brings the instances of entries to the desired state; an error of one of them holds
// up no other. What an entry has from before stays while its instance of another name cannot be
// made. Entries that the API refuses, whatever the reason, become problems; only those that no later
// attempt can bring about are not tried again.
func (r *Reconciler) applyInstances(ctx context.Context, p *plan) error {
	var errs []error
	var good []Entry
	bad := map[string]bool{}
	for _, entry := range p.apply {
		have, desired, before := p.ours[entry.Name], instanceFor(r.configMap, &entry), r.predecessor(&entry)
		what := "its instance could not be changed"
		if have == nil {
			what = "its instance could not be created"
		}
		var written bool
		var err error
		current := have
		if have == nil && before != nil {
			current, err = r.succeed(ctx, before, desired)
		}
		if err == nil {
			written, err = r.applier.Instance(ctx, current, desired)
		}
		missing := have == nil && err != nil
		if err == nil && before != nil {
			r.givenBack(p, before)
		}
		invalid := apierrors.IsInvalid(err)
		if err != nil {
			bad[entry.Key] = true
			why := Problem{Key: entry.Key, Message: fmt.Sprintf("%s, which is tried again: %s", what, words.Steady(err.Error())), Passes: passing(err)}
			if invalid {
				why.Message = err.Error()
			}
			if !why.Passes {
				p.problems = append(p.problems, why)
			}
			if missing {
				p.await(why)
			}
		}
		if invalid {
			continue
		}
		good, errs = append(good, entry), append(errs, err)
		if written {
			log.FromContext(ctx).Info("Applied the instance of an entry",
				"instance", klog.KRef(r.configMap.Namespace, entry.Name), "entry", entry.Key, "created", have == nil)
		}
	}
	p.apply = good
	p.keep(r.configMap, bad)
	return errors.Join(errs...)
}

func (r *Reconciler) removeInstances(ctx context.Context, instances []*v1alpha1.WindowsInstance) error {
	var errs []error
	for _, instance := range instances {
		if err := object.Delete(ctx, r.client, instance.DeepCopy()); err != nil {
			errs = append(errs, err)
			continue
		}
		r.deleted[instance.UID] = true
		// A pass may see that it is gone before the watch has told that it was deleted.
		last := instance.DeepCopy()
		last.DeletionTimestamp = new(metav1.NewTime(r.now()))
		r.left.see(last, r.configMap)
		log.FromContext(ctx).Info("Deleted an instance that the ConfigMap no longer asks for", "instance", klog.KObj(instance))
	}
	return errors.Join(errs...)
}

// windDown removes what was made from a ConfigMap that is gone: the instances
// first, because they may need the credentials of the pool until the end.
func (r *Reconciler) windDown(ctx context.Context, pool *v1alpha1.WindowsNodePool, p *plan, d *ration.Removals, instances []v1alpha1.WindowsInstance) error {
	if len(d.Waiting) > 0 {
		return r.remove(ctx, pool, d, len(d.Waiting), r.confirmation("was deleted", d, p))
	}
	text := fmt.Sprintf("There is no ConfigMap %s. Create it with one entry for each host.", r.configMap)
	made := pool.Annotations[v1alpha1.SourceAnnotation] == sourceOf(r.configMap)
	others := othersIn(instances, r.configMap)
	switch left := len(d.Now) + d.Later + len(p.leaving); {
	case left > 0:
		text = fmt.Sprintf("The ConfigMap %s was deleted; %s %s being removed.", r.configMap, words.Count(left, "host"), words.Form(left, "is", "are"))
	case made && len(others) > 0:
		text = fmt.Sprintf("The ConfigMap %s was deleted; the pool stays because of instances that do not come from it: %s. Delete them, or give them another pool.",
			r.configMap, words.Enumerate(others, maxNamed))
	case made: // otherwise somebody made the pool ahead of the ConfigMap, say to choose its credentials
		if err := object.Delete(ctx, r.client, pool); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Deleted the pool of a ConfigMap that is gone", "pool", klog.KObj(pool))
		return nil
	}
	return r.remove(ctx, pool, d, 0, notFoundCondition(text))
}

// othersIn returns the names of the instances that name the pool. When none is left that comes from
// the ConfigMap, they are those of others.
func othersIn(instances []v1alpha1.WindowsInstance, pool types.NamespacedName) []string {
	var out []string
	for i := range instances {
		if inPool(&instances[i], pool) {
			out = append(out, instances[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

// confirmation says that removals wait for somebody. what is what became of the ConfigMap.
func (r *Reconciler) confirmation(what string, d *ration.Removals, p *plan) metav1.Condition {
	lines := []string{fmt.Sprintf("The ConfigMap %s %s. %s", r.configMap, what, question(r.configMap, d.Waiting))}
	problems := p.problems
	if d.Held {
		lines = append(lines, waitsFor(p.unready)+"\nCorrect that; then the removal goes on by itself.")
		problems = slices.DeleteFunc(slices.Clone(problems), func(problem Problem) bool { return slices.Contains(p.unready, problem) })
	} else {
		lines = append(lines, r.limit.String())
	}
	if len(problems) > 0 {
		lines = append(lines, problemLines(problems))
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonConfirmationNeeded, Message: strings.Join(lines, "\n"),
	}
}

// report tells of entries on the ConfigMap.
func report(to *message.Reporter, cm *corev1.ConfigMap, reason string, problems []Problem) {
	messages := make(map[string]string, len(problems))
	for _, problem := range problems {
		messages["data["+problem.Key+"]"] = problem.String()
	}
	to.Report(cm, reason, messages)
}

// setStatus applies the part of the status that the controller of a source owns.
func (r *Reconciler) setStatus(ctx context.Context, pool *v1alpha1.WindowsNodePool, desired int, recent []v1alpha1.PoolRemoval, condition metav1.Condition) error {
	condition.ObservedGeneration = pool.Generation
	before := pool.Status.Conditions
	if condition.Reason == v1alpha1.ReasonConfirmationNeeded && waitingSince(pool).IsZero() {
		// The limit goes by when the question came up: the condition may have been False for long, for another reason.
		before = nil
	}
	status := acwindowsv1alpha1.WindowsNodePoolStatus().
		WithDesiredReplicas(int32(desired)).
		WithConditions(apply.Condition(before, condition, r.now()))
	status.RecentRemovals = []acwindowsv1alpha1.PoolRemovalApplyConfiguration{}
	for _, removal := range recent {
		record := acwindowsv1alpha1.PoolRemoval().WithName(removal.Name).WithTime(removal.Time)
		if removal.Confirmed {
			record.WithConfirmed(true)
		}
		status.WithRecentRemovals(record)
	}
	_, err := r.applier.PoolStatus(ctx, pool, status)
	return err
}
