// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

const (
	// maxDeleted is how many of a pool are remembered at most: more than it keeps.
	maxDeleted = 32
	// restoreAgain is after what time one is tried again that could not be made.
	restoreAgain = time.Minute
	// eventNotRestored is the reason of the event that one is refused.
	eventNotRestored = "RevisionNotRestored"
)

// remembersDeleted has a handler tell the reconciler first what a ControllerRevision had that was deleted. Its hosts may have or get what is in it, and
// nobody else knows that: it is made again from what was watched.
type remembersDeleted struct {
	handler.EventHandler

	r *Reconciler
}

// Delete implements [handler.EventHandler].
func (h remembersDeleted) Delete(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if deleted, ok := e.Object.(*appsv1.ControllerRevision); ok {
		h.r.rememberDeleted(ctx, deleted)
	}
	h.EventHandler.Delete(ctx, e, queue)
}

// Update implements [handler.EventHandler]. One that has the label of another pool is as good as deleted.
func (h remembersDeleted) Update(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if changed, ok := e.ObjectNew.(*appsv1.ControllerRevision); ok && changed.Labels[v1alpha1.PoolLabel] != e.ObjectOld.GetLabels()[v1alpha1.PoolLabel] {
		h.r.rememberDeleted(ctx, changed)
	}
	h.EventHandler.Update(ctx, e, queue)
}

// rememberDeleted remembers a ControllerRevision until its pool is looked at. One that no pool owns is never looked at.
func (r *Reconciler) rememberDeleted(ctx context.Context, deleted *appsv1.ControllerRevision) {
	owner := metav1.GetControllerOf(deleted)
	if !ownedByPool(owner) {
		return
	}
	pool := &v1alpha1.WindowsNodePool{}
	key := client.ObjectKey{Namespace: deleted.Namespace, Name: owner.Name}
	if err := r.client.Get(ctx, key, pool); err != nil { // of the cache: only that there is none
		return
	}
	if _, ok := revision.Kept(pool, deleted); !ok {
		return // somebody else has made it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted[key] == nil {
		r.deleted[key] = map[string]*appsv1.ControllerRevision{}
	}
	// Those of other programs may be made and deleted in any number.
	if len(r.deleted[key]) < maxDeleted || deleted.Name == pool.Status.UpdateRevision || inUse(pool, nil, deleted.Name) {
		r.deleted[key][deleted.Name] = deleted.DeepCopy()
	}
}

// takeDeleted returns what is remembered of a pool, and forgets it.
func (r *Reconciler) takeDeleted(pool types.NamespacedName) map[string]*appsv1.ControllerRevision {
	r.mu.Lock()
	defer r.mu.Unlock()
	deleted := r.deleted[pool]
	delete(r.deleted, pool)
	return deleted
}

// restoreRevisions makes those ControllerRevisions of a pool again that somebody has deleted: that of now, and those that hosts have, are given or
// can go back to. It says after what time those are tried again that could not be made. Zero: there are none. Those that
// somebody refuses are told as an event.
func (r *Reconciler) restoreRevisions(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance) (again time.Duration) {
	deleted := r.takeDeleted(client.ObjectKeyFromObject(pool))
	if len(deleted) == 0 {
		return 0
	}
	byNumber := func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	}
	var refused []string
	for _, lost := range slices.SortedFunc(maps.Values(deleted), byNumber) {
		content, ok := revision.Kept(pool, lost)
		if !ok || lost.Name != pool.Status.UpdateRevision && !inUse(pool, instances, lost.Name) {
			continue
		}
		err := r.restore(ctx, pool, lost, content)
		if apierrors.IsAlreadyExists(err) {
			// For the cache one without its label is deleted too.
			if _, ok, relabelErr := r.relabel(ctx, pool, lost.Name); ok || relabelErr != nil {
				err = relabelErr
			}
		}
		if err == nil {
			continue
		}
		log.FromContext(ctx).Error(err, "A ControllerRevision that was deleted, and that hosts have, are given or can go back to, cannot be made again. It is tried again",
			"ControllerRevision", lost.Name)
		if text := describeLost(pool, lost.Name, err); text != "" {
			refused = append(refused, text)
		}
		r.rememberDeleted(ctx, lost)
		again = restoreAgain
	}
	problems := map[string]string{}
	if len(refused) > 0 {
		problems[""] = strings.Join(refused, " ")
	}
	r.reporter.Report(pool, eventNotRestored, problems)
	return again
}

// describeLost says that a ControllerRevision that was deleted is not made again, and what to do. Empty: nobody has refused it, so that the next
// attempt is likely to succeed.
func describeLost(pool *v1alpha1.WindowsNodePool, name string, err error) string {
	lost := fmt.Sprintf("ControllerRevision %s, which hosts have, are given or can go back to, was deleted, and ", name)
	switch {
	case apierrors.IsAlreadyExists(err):
		return lost + fmt.Sprintf("one of its name exists that is not as windows-controller has made it: somebody has changed its data or its owner, or made another one. Until it is deleted, no host can go back to it. "+
			"If it has what you need, save it first: kubectl get controllerrevisions.apps %[1]s -n %[2]s -o yaml. Then: kubectl delete controllerrevisions.apps %[1]s -n %[2]s. windows-controller makes it again, unless it is restarted before.", name, pool.Namespace)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsInternalError(err): // quotas and admission; webhooks that do not answer
		return lost + fmt.Sprintf("the API server does not accept it again: %v. Until it does, no host can go back to it. Let windows-controller write it, for example with room in a quota (kubectl describe resourcequota -n %s); "+
			"it is tried again by itself.", err, pool.Namespace)
	}
	return ""
}

// keptLive reads the ControllerRevision of a name from the API server, which has it whatever its labels are. Nil: there is none. It reports false
// for one that is not as the controller has made it.
func (r *Reconciler) keptLive(ctx context.Context, pool *v1alpha1.WindowsNodePool, name string) (found *appsv1.ControllerRevision, ok bool, err error) {
	var list appsv1.ControllerRevisionList // the controller may not get one
	if err := r.applier.Live.List(ctx, &list, client.InNamespace(pool.Namespace), client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
		return nil, false, fmt.Errorf("reading ControllerRevision %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, false, nil
	}
	_, ok = revision.Kept(pool, &list.Items[0])
	return &list.Items[0], ok, nil
}

// relabel reads the ControllerRevision of a name from the API server, and gives it the labels of its pool. It reports false for one that is not as
// the controller has made it.
func (r *Reconciler) relabel(ctx context.Context, pool *v1alpha1.WindowsNodePool, name string) (kept *appsv1.ControllerRevision, ok bool, err error) {
	kept, ok, err = r.keptLive(ctx, pool, name)
	switch {
	case err != nil:
		return nil, false, err
	case kept == nil:
		return nil, false, fmt.Errorf("ControllerRevision %s existed a moment ago, and was deleted", name)
	case !ok:
		return nil, false, nil
	}
	if err := r.labelAgain(ctx, pool, kept); err != nil {
		return nil, false, err
	}
	return kept, true, nil
}

// labelAgain gives a ControllerRevision the labels of its pool if somebody has removed or changed them: without them nobody finds it.
func (r *Reconciler) labelAgain(ctx context.Context, pool *v1alpha1.WindowsNodePool, kept *appsv1.ControllerRevision) error {
	want := pool.RevisionLabels()
	if labels.SelectorFromSet(want).Matches(labels.Set(kept.Labels)) {
		return nil
	}
	if kept.Labels == nil {
		kept.Labels = map[string]string{}
	}
	maps.Copy(kept.Labels, want)
	if err := r.client.Update(ctx, kept); err != nil {
		return fmt.Errorf("labeling ControllerRevision %s again: %w", kept.Name, err)
	}
	return nil
}

// restore makes a ControllerRevision again, encoded as the controller does: what was deleted may have come from a backup. It keeps its number, unless
// somebody has given it one that does not follow those of the pool, or another one has got it since.
func (r *Reconciler) restore(ctx context.Context, pool *v1alpha1.WindowsNodePool, lost *appsv1.ControllerRevision, content *revision.Revision) error {
	data, err := content.Encode()
	if err != nil {
		return err
	}
	revisions, err := r.revisionsOf(ctx, pool)
	if err != nil {
		return err
	}
	restored := newRevision(pool, lost.Name, data, freeNumber(revisions, lost.Revision))
	restored.Annotations = lost.Annotations
	if err := r.client.Create(ctx, restored); err != nil {
		return fmt.Errorf("making ControllerRevision %s again: %w", lost.Name, err)
	}
	return nil
}

// freeNumber is the number nearest to one, and not above it, that none of the revisions of a pool has. Where there is none, or that does not follow
// theirs, it is the next one.
func freeNumber(revisions []appsv1.ControllerRevision, number int64) int64 {
	newest := newestNumber(revisions)
	if number-newest > maxGap {
		return newest + 1
	}
	for slices.ContainsFunc(revisions, func(o appsv1.ControllerRevision) bool { return o.Revision == number }) {
		number--
	}
	if number < 1 {
		return newest + 1
	}
	return number
}
