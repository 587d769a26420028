// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/leading"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	"github.com/openshift/windows-instance-api/pkg/forbidden"
)

// conflictDelay is when to try again after somebody else has changed the object. The
// change itself usually wakes the reconciler before.
const conflictDelay = time.Second

// Reconciler records the operations that hosts need. See the comment of the package.
type Reconciler struct {
	Options

	client client.Client
	// live reads from the API server what is not worth a cache.
	live      client.Reader
	clock     clock.PassiveClock
	standings *standings
	// missing is since when namespaces with objects of ours are known not to exist. Only [Reconciler.endOrphans] uses it.
	missing map[string]time.Time

	mu sync.Mutex // guards refusals
	// refusals are the answers to deletions of Nodes of hosts that are given up, by the UID of their instance.
	refusals map[types.UID]*forbidden.Refusals
}

// refusalPasses says whether the deletion of the Node of a host that is given up was refused as kube-apiserver does that has just started, and is to be
// tried again.
func (r *Reconciler) refusalPasses(uid types.UID, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.refusals[uid]
	if known == nil {
		known = &forbidden.Refusals{}
	}
	if !known.Passes(err, r.clock.Now()) {
		delete(r.refusals, uid)
		return false
	}
	if r.refusals == nil {
		r.refusals = map[types.UID]*forbidden.Refusals{}
	}
	r.refusals[uid] = known
	return true
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile decides about one instance and writes what was decided.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	instance, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if instance == nil {
		r.standings.set(req.NamespacedName, standing{})
		return reconcile.Result{}, nil
	}
	s, err := r.snapshot(ctx, instance)
	if err != nil {
		return reconcile.Result{}, err
	}
	a := decide(s)
	r.standings.set(req.NamespacedName, newStanding(s, a))
	err = r.act(ctx, s, a)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil // it was decided by what is not so any more
	case errors.Is(err, leading.ErrNotLeading):
		return reconcile.Result{RequeueAfter: leading.AgainAfter}, nil
	case object.Gone(err):
		return reconcile.Result{}, nil // deleted meanwhile, which wakes the reconciler
	case err != nil:
		return reconcile.Result{}, err
	case !a.again.IsZero():
		return reconcile.Result{RequeueAfter: max(a.again.Sub(s.now), time.Millisecond)}, nil
	}
	return reconcile.Result{}, nil
}

// snapshot gathers what decides.
func (r *Reconciler) snapshot(ctx context.Context, instance *v1alpha1.WindowsInstance) (snapshot, error) {
	pool, err := object.PoolOf(ctx, r.client, instance)
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{instance: instance, managed: r.Managed, paused: object.PausedBy(instance, pool), pool: pool, now: r.clock.Now()}
	if !instance.DeletionTimestamp.IsZero() && s.held() {
		// Without knowing it nothing is done: a host whose namespace goes must not be cleaned.
		namespace, err := object.Get(ctx, r.live, types.NamespacedName{Name: instance.Namespace}, &corev1.Namespace{})
		if err != nil {
			return snapshot{}, err
		}
		s.terminating = namespace == nil || !namespace.DeletionTimestamp.IsZero()
		members, err := membersOf(ctx, r.client, instance)
		if err != nil {
			return snapshot{}, err
		}
		s.heir, s.awaited = heir(instance, members)
		removal := instance.Status.NewestAttempt(v1alpha1.OperationRemove)
		if r.Wanted != nil && !instance.Status.RemovalBegun() {
			if s.wanted, err = r.Wanted(ctx, instance); err != nil {
				return snapshot{}, err
			}
		}
		if r.MachineLeaving != nil && s.outOfReach(removal) {
			if s.machineLeaving, err = r.MachineLeaving(ctx, instance); err != nil {
				return snapshot{}, err
			}
		}
		if removal == nil && !r.RemoveWithoutConfirmation { // one that was recorded had its turn
			s.turn = turnOf(ration.Limit{Most: r.MaxRemovals, Window: r.RemovalWindow}, instance, pool, members, s.now)
		}
	}
	return s, nil
}

// act does what was decided.
func (r *Reconciler) act(ctx context.Context, s snapshot, a action) error {
	var written bool
	var err error
	switch a.do {
	case doHold:
		return r.patchFinalizers(ctx, s.instance, controllerutil.AddFinalizer)
	case doAbandon:
		switch err := r.deleteNode(ctx, s.instance); {
		case r.refusalPasses(s.instance.UID, err):
			return err
		case errors.Is(err, errTakenByWMCO):
			if a.event != nil {
				a.event.note += " Its Node stays: the Windows Machine Config Operator has it."
			}
		case apierrors.IsForbidden(err):
			// This is the last way out, and what forbids it may stay so: one of our policies does for a
			// Node that does not say that it runs Windows.
			log.FromContext(ctx).Error(err, "The host is given up, and its Node stays")
			if a.event != nil {
				a.event.note += fmt.Sprintf(" Its Node stays, delete it by hand: %v.", err)
			}
		case err != nil:
			return err
		}
		written, err = true, r.patchFinalizers(ctx, s.instance, controllerutil.RemoveFinalizer)
	case doHandOver:
		if err := r.handOver(ctx, s); err != nil {
			return err
		}
		written, err = true, r.patchFinalizers(ctx, s.instance, controllerutil.RemoveFinalizer)
	case doRelease:
		written, err = true, r.patchFinalizers(ctx, s.instance, controllerutil.RemoveFinalizer)
	case doNothing, doRecord, doCancel:
		// How many hosts may be removed counts for all processes.
		if a.do == doRecord && a.operation == v1alpha1.OperationRemove {
			if err := leading.Ensure(ctx, r.Leads); err != nil {
				return err
			}
		}
		if err := r.remember(ctx, s.pool, a.turn); err != nil {
			return err
		}
		written, err = r.writeStatus(ctx, s, a)
	}
	if err != nil || !written || a.event == nil {
		return err
	}
	if s.terminating {
		// No events can be made in a namespace that is being deleted, so that this is all there is.
		log.FromContext(ctx).Info("The namespace of the instance is being deleted", "reason", a.event.reason, "note", a.event.note)
	}
	r.Recorder.Event(s.instance, a.event.eventType, a.event.reason, message.EventNote(a.event.note))
	return nil
}

// writeStatus records what was decided, if that is anything new.
func (r *Reconciler) writeStatus(ctx context.Context, s snapshot, a action) (bool, error) {
	changed := s.instance.DeepCopy() // the one that was read belongs to the cache
	var err error
	switch a.do {
	case doRecord:
		o := v1alpha1.NewOperation(a.operation, rand.String(v1alpha1.OperationIDLength), v1alpha1.OriginController, v1alpha1.ControllerRequester, s.now)
		if a.operation == v1alpha1.OperationReconfigure {
			// Known before it begins, so that one that does not get far counts as an attempt at it.
			o.Revision, o.PoolRevision = changed.Status.DesiredRevision, changed.Status.DesiredPoolRevision
		}
		err = changed.Status.Record(o)
	case doCancel:
		err = changed.Status.Cancel(changed.Status.Operation.ID, v1alpha1.ControllerRequester, s.now)
	}
	if err != nil {
		return false, err
	}
	if a.removed != nil {
		condition := *a.removed
		condition.ObservedGeneration = s.instance.Generation
		condition.LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		condition.Message = message.ConditionMessage(condition.Message)
		meta.SetStatusCondition(&changed.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(s.instance.Status, changed.Status) {
		return false, nil
	}
	if err := object.UpdateStatus(ctx, r.client, changed); err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}

// errTakenByWMCO says that a Node is not deleted because it is that of the Windows Machine Config Operator.
var errTakenByWMCO = errors.New("the Node is that of the Windows Machine Config Operator")

// deleteNode deletes the Node of the host. One that has taken its name since stays, and so
// does the one of a host that nothing was done to: others made it, whoever asked for it to
// be configured. So does one that the Windows Machine Config Operator has ([errTakenByWMCO]): a status that was restored from before a release does not
// know of it.
func (r *Reconciler) deleteNode(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	known := nodeOf(&instance.Status)
	if known == nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: known.Name}}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(node), node)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Node %s: %w", known.Name, err)
	case err == nil && node.UID == known.UID && object.MarkedByWMCO(node):
		return errTakenByWMCO
	}
	err = r.client.Delete(ctx, node, client.Preconditions{UID: &known.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Node %s: %w", known.Name, err)
	}
	return nil
}

// nodeOf is the Node that we made of a host: the one it has, else the one of the operation that
// last changed the host. Nil: there is none, or others made it, or may have it, as the host may have been released. One that only a drain or a reboot
// worked on may have been the Node of others.
func nodeOf(status *v1alpha1.WindowsInstanceStatus) *v1alpha1.NodeReference {
	if !status.MayHaveChangedHost() || status.ReleaseBegunBy() != nil {
		return nil
	}
	if status.Node != nil {
		return status.Node
	}
	for _, o := range status.Operations() {
		if o.Node != nil && (o.Type == v1alpha1.OperationReconfigure || o.Type == v1alpha1.OperationAdopt) && o.MayHaveChangedHost() {
			return &v1alpha1.NodeReference{Name: o.Node.Name, UID: o.Node.UID}
		}
	}
	return nil
}
