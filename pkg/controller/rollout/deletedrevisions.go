// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		h.r.rememberDeleted(deleted)
	}
	h.EventHandler.Delete(ctx, e, queue)
}

// rememberDeleted remembers a ControllerRevision until its pool is looked at. One that no pool owns is never looked at.
func (r *Reconciler) rememberDeleted(deleted *appsv1.ControllerRevision) {
	owner := metav1.GetControllerOf(deleted)
	if !ownedByPool(owner) {
		return
	}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: deleted.Namespace, Name: owner.Name, UID: owner.UID}}
	if _, ok := revision.Kept(pool, deleted); !ok {
		return // somebody else has made it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKey{Namespace: deleted.Namespace, Name: owner.Name}
	if r.deleted[key] == nil {
		r.deleted[key] = map[string]*appsv1.ControllerRevision{}
	}
	if len(r.deleted[key]) < maxDeleted {
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
// can go back to. It says after what time those are tried again that could not be made. Zero: there are none.
func (r *Reconciler) restoreRevisions(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance) (again time.Duration) {
	byNumber := func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) }
	for _, lost := range slices.SortedFunc(maps.Values(r.takeDeleted(client.ObjectKeyFromObject(pool))), byNumber) {
		name := lost.Name
		content, ok := revision.Kept(pool, lost)
		if !ok || name != pool.Status.UpdateRevision && !inUse(pool, instances, name) {
			continue
		}
		err := r.restore(ctx, pool, lost, content)
		if apierrors.IsAlreadyExists(err) {
			if kept, readErr := r.kept(ctx, pool, name); kept != nil || readErr != nil {
				err = readErr
			}
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "A ControllerRevision that was deleted, and that hosts have or can go back to, cannot be made again. It is tried again. "+
				"If one exists that somebody has changed, delete that", "ControllerRevision", name)
			r.rememberDeleted(lost)
			again = restoreAgain
		}
	}
	return again
}

// restore makes a ControllerRevision again, encoded as the controller does: what was deleted may have come from a backup. It keeps its number, unless
// somebody has given it one that does not follow those of the pool.
func (r *Reconciler) restore(ctx context.Context, pool *v1alpha1.WindowsNodePool, lost *appsv1.ControllerRevision, content *revision.Revision) error {
	data, err := content.Encode()
	if err != nil {
		return err
	}
	number := lost.Revision
	if number > maxGap {
		revisions, err := r.revisionsOf(ctx, pool)
		if err != nil {
			return err
		}
		if newest := newestNumber(revisions); number-newest > maxGap {
			number = newest + 1
		}
	}
	restored := newRevision(pool, lost.Name, data, number)
	restored.Annotations = lost.Annotations
	if err := r.client.Create(ctx, restored); err != nil {
		return fmt.Errorf("making ControllerRevision %s again: %w", lost.Name, err)
	}
	return nil
}
