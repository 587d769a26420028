// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// fieldManager owns what this controller applies. It must never change.
const fieldManager = "windows-controller-pool"

// Reconciler keeps the status of pools and their ControllerRevisions: it creates them, restores those that somebody has deleted, and deletes
// the oldest ones that no host has or can go back to, when there are more than [maxRevisions]. It decides whether the newest revision is
// rolled back, and answers requests to undo it; which host gets which revision follows from the status. Its requests are pools by namespace
// and name.
type Reconciler struct {
	client  client.Client
	applier *apply.Applier
	now     func() time.Time
	// blockedBy says what the hosts of a pool wait for.
	blockedBy func(poolKey) holdup
	// keys, payload, goesBack and recorder are as in [Options].
	keys     KeysFunc
	payload  func() (document.Payload, bool)
	goesBack func(document.Payload) (why string, ships, ok bool)
	recorder record.EventRecorder
	// reporter tells which ControllerRevisions are not made again.
	reporter *message.Reporter

	mu   sync.Mutex // guards what follows
	seen map[types.NamespacedName]revisionSeen
	// deleted has the ControllerRevisions of a pool, by name, that were deleted since its last pass.
	deleted map[types.NamespacedName]map[string]*appsv1.ControllerRevision
	// took is how long the last pass over a pool took.
	took map[types.NamespacedName]time.Duration
}

// revisionSeen is since when a pool has a template, or has it again that was undone or rolled back.
type revisionSeen struct {
	revision string
	// undone: somebody has asked for it to be undone. back: it is rolled back, and not for that.
	undone, back bool
	at           time.Time
	// changed: it had another one before, so that what its hosts say may be about that for a moment. When the process began to look at
	// the pool, they knew already.
	changed bool
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	began := r.now()
	defer func() { r.noteTook(req.NamespacedName, r.now().Sub(began)) }()
	pool, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsNodePool{})
	if err != nil || pool == nil || !pool.DeletionTimestamp.IsZero() {
		if err == nil {
			r.forget(req.NamespacedName)
			r.reporter.Forget(req.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	var members v1alpha1.WindowsInstanceList
	// The instances of the cache are shared; they are only read.
	if err := r.client.List(ctx, &members, client.InNamespace(pool.Namespace), object.InPool(pool.Name), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list instances: %w", err)
	}
	instances := make([]*v1alpha1.WindowsInstance, len(members.Items))
	for i := range members.Items {
		instances[i] = &members.Items[i]
	}
	restore := r.restoreRevisions(ctx, pool, instances) // before a new one gets a number
	now := r.now()
	d := r.decideRevision(ctx, pool, instances, now)
	held := r.blockedBy(poolKey{pool.Namespace, pool.Name})
	held.settles = d.changed && d.settles > 0
	status := computeStatus(pool, instances, held, d.back, d.troubles, now)
	if c := credentialsCondition(pool, instances, r.keys); c != nil {
		c.ObservedGeneration = pool.Generation
		status.Conditions = append(status.Conditions, *c)
	}
	want := statusToApply(pool, &status, d.back, now)
	if d.revision != "" {
		want.WithUpdateRevision(d.revision)
	}
	working := d.revision
	if d.settles > 0 {
		working = ""
	}
	current, worked, again := revisionsThatWork(pool, instances, working, d.back, now)
	if current != "" {
		want.WithCurrentRevision(current)
	}
	want.WithWorkedRevisions(worked...)
	if _, err = r.applier.PoolStatus(ctx, pool, want); err == nil {
		r.tellRollback(pool, d.back, d.revision)
	}
	if err := errors.Join(err, d.err); err != nil {
		return reconcile.Result{}, err
	}
	for _, i := range instances {
		_, searched := cannotSearch(i, pool, now)
		again = sooner(sooner(again, settlesIn(i, now)), searched)
	}
	return reconcile.Result{RequeueAfter: sooner(sooner(sooner(d.settles, d.again), again), restore)}, nil
}

// revisionDecision is which revision the hosts of a pool are to have, and whether they go back from it.
type revisionDecision struct {
	// revision is the newest one, and the last one known while that cannot be kept.
	revision string
	// settles is how long it is until hosts know it, and changed says that they had another one before; see [Reconciler.settles].
	settles time.Duration
	changed bool
	// back is how it is rolled back or undone. Nil: it is not.
	back *v1alpha1.PoolRollback
	// again is when that may change by itself. Zero: it does not.
	again time.Duration
	// troubles are what people have to know, and err what is tried again.
	troubles []trouble
	err      error
}

// decideRevision keeps the newest revision of a pool, and decides about going back.
func (r *Reconciler) decideRevision(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, now time.Time) (d revisionDecision) {
	var unkept, err error
	if d.revision, unkept = r.keepRevision(ctx, pool, instances); unkept != nil {
		d.revision = pool.Status.UpdateRevision // the rest is told all the same
	}
	d.err = unkept
	d.settles, d.changed = r.settles(pool, d.revision)
	to, lost, refused := "", "", ""
	if d.settles == 0 {
		if to, lost, err = r.goesBackTo(ctx, pool, d.revision); err != nil {
			d.err = errors.Join(d.err, err)
		}
	}
	if d.back, refused, err = r.undo(ctx, pool, instances, d.revision); err != nil {
		d.err = errors.Join(d.err, err)
	}
	if d.back == nil {
		d.back, d.again = rollback(pool, instances, d.revision, to, now)
	}
	d.troubles = troublesOfRevisions(pool, refused, unkept, lost)
	return d
}

// noteTook notes how long the last pass over a pool took that is known.
func (r *Reconciler) noteTook(pool types.NamespacedName, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.seen[pool]; !known {
		return
	}
	if r.took == nil {
		r.took = map[types.NamespacedName]time.Duration{}
	}
	r.took[pool] = took
}

// passTook is how long it took.
func (r *Reconciler) passTook(pool types.NamespacedName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.took[pool]
}

// forget drops what is remembered of a pool that is gone.
func (r *Reconciler) forget(pool types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, pool)
	delete(r.took, pool)
	delete(r.deleted, pool)
}

// statusToApply is what is written of a status, without the revisions.
func statusToApply(pool *v1alpha1.WindowsNodePool, status *v1alpha1.WindowsNodePoolStatus, back *v1alpha1.PoolRollback, now time.Time) *acwindowsv1alpha1.WindowsNodePoolStatusApplyConfiguration {
	want := acwindowsv1alpha1.WindowsNodePoolStatus().
		WithObservedGeneration(status.ObservedGeneration).
		WithPhase(status.Phase).
		WithReplicas(status.Replicas).
		WithReadyReplicas(status.ReadyReplicas).
		WithUpdatedReplicas(status.UpdatedReplicas).
		WithUnavailableReplicas(status.UnavailableReplicas).
		WithBlockedBy(status.BlockedBy)
	if back != nil {
		want.WithRolledBack(acwindowsv1alpha1.PoolRollback().WithRevision(back.Revision).WithTo(back.To).WithTime(back.Time).
			WithInstances(back.Instances...).WithMessage(back.Message))
		if back.ByPerson() {
			want.RolledBack.WithRequestedBy(back.RequestedBy).WithWithoutPrograms(back.WithoutPrograms...)
		}
	}
	if pool.Spec.Source.Instances != nil {
		want.WithDesiredReplicas(status.DesiredReplicas)
	}
	for _, condition := range status.Conditions {
		want.WithConditions(apply.Condition(pool.Status.Conditions, condition, now))
	}
	return want
}

// tellRollback sends the event about a revision of a pool that is undone, or rolled back, unless that was so before, and that it is over.
func (r *Reconciler) tellRollback(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback, revision string) {
	switch known, was := pool.RolledBack(revision), pool.Status.RolledBack; {
	case back == nil && was != nil:
		r.recorder.Event(pool, corev1.EventTypeNormal, eventRollbackEnded, message.EventNote(describeRollbackEnd(was, revision)))
	case back == nil:
	case back.ByPerson() && (known == nil || known.RequestedBy != back.RequestedBy || !known.Time.Equal(&back.Time)):
		r.recorder.Event(pool, corev1.EventTypeNormal, eventUndone, message.EventNote(back.Message))
	case !back.ByPerson() && (known == nil || known.ByPerson()):
		r.recorder.Event(pool, corev1.EventTypeWarning, eventRolledBack, message.EventNote(back.Message))
	}
}

// revisionsThatWork are the revision that all hosts of a pool worked with last, and those that they worked with before, see
// status.workedRevisions. newest is the newest one, empty if it is not known yet whether hosts know of it; again is as with [allWorkWith].
func revisionsThatWork(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, newest string, back *v1alpha1.PoolRollback, now time.Time) (current string, worked []string, again time.Duration) {
	current, worked = pool.Status.CurrentRevision, pool.Status.Worked()
	switch {
	case back.ByPerson(): // nothing goes back to what somebody has undone
		current, worked = back.To, nowWorked(worked, back.Revision, true)
	case newest != "" && back == nil: // one that is rolled back is none to go back to
		var all bool
		if all, again = allWorkWith(pool, instances, newest, now); all {
			current, worked = newest, nowWorked(worked, newest, false)
		}
	}
	return current, worked, again
}

// allWorkWith says whether each host that stays has worked with a revision of its pool, and none of them is broken, or has gone down since
// it got it less than [blamedFor] ago: again is after what time that is over. That they are up to
// date does not say it: while an input of the cluster is missing, what is desired of configured hosts does not change. Hosts that cannot get it
// do not count, as one that is off for weeks would keep the others from going back to it, if as many work with it: most are not away for a
// reason of their own, but because the way to them is cut.
func allWorkWith(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, revision string, now time.Time) (ok bool, again time.Duration) {
	staying, work, without := 0, 0, 0
	for _, i := range instances {
		if newHost(i).broken != nil {
			return false, 0
		}
		if i.DeletionTimestamp.IsZero() {
			staying++
			if i.Status.PoolRevision == revision && hasOfPool(i, nil) {
				if noLogin(&i.Status) == nil { // else it is not known any more
					work++
				}
			} else if cannot, from := cannotGet(i, pool); !cannot {
				return false, 0
			} else {
				if i.Status.Node != nil {
					without++
				}
				again = max(again, from.Sub(now))
			}
		}
		if op, n := timesDownSince(i, revision, instances, now); n > 0 {
			again = max(again, op.FinishedAt.Add(blamedFor).Sub(now))
		}
	}
	return again == 0 && (work >= max(1, without) || staying == 0), again
}

// cannotGet says whether the host of an instance cannot be given what its pool wants for a reason that is no fault of that, and from when on
// it counts as such: it never became a Node, somebody has paused it, or it could not be logged in to for [blamedFor]. One that was changed
// to that may be away because of it. In a pool with a canary the others wait for somebody, which must not end for those that were away.
func cannotGet(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (ok bool, from time.Time) {
	status := &i.Status
	if status.Node == nil && status.PoolRevision == "" {
		return true, time.Time{}
	}
	last := status.NewestOperation(v1alpha1.OperationReconfigure)
	if pool.Spec.UpdateStrategy.RollingUpdate.Canary != nil || last != nil && last.Revision == status.DesiredRevision && last.MayHaveChangedHost() {
		return false, time.Time{}
	}
	if i.Spec.Paused {
		return true, time.Time{}
	}
	if c := noLogin(status); c != nil {
		return true, c.LastTransitionTime.Add(blamedFor)
	}
	return false, time.Time{}
}

// settleTime is after what time the hosts of a pool know that its template was changed, so that what they say is about that.
const settleTime = 10 * time.Second

// settles says how long it is until then, and whether they had another one before. 0: it is so.
func (r *Reconciler) settles(pool *v1alpha1.WindowsNodePool, revision string) (left time.Duration, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key, undone := r.now(), client.ObjectKeyFromObject(pool), pool.Undo(revision) != nil
	rolledBack := pool.RolledBack(revision)
	back := rolledBack != nil && !rolledBack.ByPerson()
	seen, known := r.seen[key]
	if seen.revision != revision || seen.undone && !undone || seen.back && !back {
		seen = revisionSeen{revision: revision, at: now, changed: known || revision != pool.Status.UpdateRevision}
	}
	seen.undone, seen.back = undone, back
	r.seen[key] = seen
	return max(0, settleTime-now.Sub(seen.at)), seen.changed
}
