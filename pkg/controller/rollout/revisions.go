// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

const (
	// maxRevisions is how many templates of a pool are kept, as of Deployments by default.
	maxRevisions = 10
	// maxOwner is how long the name and the UID of a pool may be together, which the API server does not bound in owner references.
	maxOwner = 512
	// maxGap is by how much the number of a revision may exceed that of the one before it. The controller counts by one, and those between
	// may be gone; Kubernetes takes any number, and none follows the highest.
	maxGap = 1 << 20
	// revisionsPage is how many are read at a time.
	revisionsPage = 20
)

// keepRevision keeps the template that a pool has now, with the programs that its hosts are to have, as a
// ControllerRevision, so that people can see what was changed and go back, and returns its name. The newest one has the highest
// number. Those that instances have, or can go back to, are kept in any case. Nothing in it is secret.
func (r *Reconciler) keepRevision(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance) (name string, err error) {
	var programs document.Payload
	if r.payload != nil {
		var known bool
		if programs, known = r.payload(); !known {
			return pool.Status.UpdateRevision, nil
		}
	}
	now := revision.Of(pool, programs)
	data, err := now.Encode()
	if err != nil {
		return "", err
	}
	if len(data) > revision.MaxBytes {
		return "", fmt.Errorf("the template of the pool and its programs are %d bytes, which is more than the %d that are kept as a ControllerRevision", len(data), revision.MaxBytes)
	}
	if name = revision.Name(pool, data); name == pool.Status.UpdateRevision {
		// Somebody may have deleted or changed it.
		known, err := r.kept(ctx, pool, name)
		if err != nil {
			return "", err
		}
		if known != nil {
			return name, nil
		}
	}
	revisions, err := r.revisionsWith(ctx, pool, name)
	if err != nil {
		return "", err
	}
	next := newestNumber(revisions) + 1
	at := slices.IndexFunc(revisions, func(o appsv1.ControllerRevision) bool { return o.Name == name })
	switch {
	case at >= 0 && at == len(revisions)-1 && revisions[at].Revision > 0:
		return name, nil
	case at >= 0: // somebody went back to it, or has changed its number
		return name, r.makeNewest(ctx, pool, &revisions[at], next)
	}
	made := newRevision(pool, name, data, next)
	noteOver(pool, made)
	if err := r.client.Create(ctx, made); err != nil {
		if apierrors.IsAlreadyExists(err) { // perhaps without its label
			if found, ok, err := r.relabel(ctx, pool, name); err != nil {
				return "", err
			} else if ok {
				return name, r.makeNewest(ctx, pool, found, next)
			}
		}
		return "", fmt.Errorf("keeping the template of the pool as ControllerRevision %s: %w", name, err)
	}
	for i := range revisions[:max(0, len(revisions)+1-maxRevisions)] {
		if inUse(pool, instances, revisions[i].Name) {
			continue
		}
		if err := r.client.Delete(ctx, &revisions[i]); err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("deleting an old ControllerRevision: %w", err)
		}
	}
	return name, nil
}

// makeNewest gives a ControllerRevision, which has all that the API server has of it, the next number of its pool.
func (r *Reconciler) makeNewest(ctx context.Context, pool *v1alpha1.WindowsNodePool, kept *appsv1.ControllerRevision, next int64) error {
	kept.Revision = next
	noteOver(pool, kept)
	if err := r.client.Update(ctx, kept); err != nil {
		return fmt.Errorf("making ControllerRevision %s the newest: %w", kept.Name, err)
	}
	return nil
}

// revisionsOf returns the templates that a pool had, the newest one last, without their data. What somebody else has made in its name is none.
// Those with a number that the controller cannot have given them come first, as number 0.
func (r *Reconciler) revisionsOf(ctx context.Context, pool *v1alpha1.WindowsNodePool) ([]appsv1.ControllerRevision, error) {
	return r.revisionsWith(ctx, pool, "")
}

// revisionsWith is [Reconciler.revisionsOf], with all that the API server has of the one with a name, so that it can be updated. Of the others
// it has what [trimmed] leaves: there may be any number of them.
func (r *Reconciler) revisionsWith(ctx context.Context, pool *v1alpha1.WindowsNodePool, name string) ([]appsv1.ControllerRevision, error) {
	var own []appsv1.ControllerRevision
	for next := ""; ; {
		var list appsv1.ControllerRevisionList
		if err := r.applier.Live.List(ctx, &list, client.InNamespace(pool.Namespace), client.MatchingLabels(pool.RevisionLabels()),
			client.Limit(revisionsPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list ControllerRevisions: %w", err)
		}
		for i := range list.Items {
			kept := &list.Items[i]
			if !revision.Made(pool, kept) {
				continue
			}
			if kept.Name != name {
				kept = trimmed(kept)
				kept.Data = runtime.RawExtension{}
			}
			own = append(own, *kept)
		}
		if next = list.Continue; next == "" {
			return inOrder(v1alpha1.SortRevisions(pool, own)), nil
		}
	}
}

// inOrder puts first, as number 0, those of sorted revisions whose number is not plausible: somebody has made them, and none of the controller's
// own must follow them.
func inOrder(revisions []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	before := int64(0)
	for at := range revisions {
		if revisions[at].Revision-before > maxGap {
			for i := range revisions[at:] {
				revisions[at+i].Revision = 0
			}
			return slices.Concat(revisions[at:], revisions[:at])
		}
		before = revisions[at].Revision
	}
	return revisions
}

// newestNumber is that of the newest of the revisions of a pool. 0: it has none.
func newestNumber(revisions []appsv1.ControllerRevision) int64 {
	if len(revisions) == 0 {
		return 0
	}
	return revisions[len(revisions)-1].Revision
}

// ownedByPool says whether a controller of an object is a pool. Nil: there is none.
func ownedByPool(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "WindowsNodePool" && owner.APIVersion == v1alpha1.SchemeGroupVersion.String()
}

// trim is what the cache keeps of an object, see [trimmed].
func trim(object any) (any, error) {
	if kept, ok := object.(*appsv1.ControllerRevision); ok {
		return trimmed(kept), nil
	}
	return object, nil
}

// trimmed is what the controller reads of a ControllerRevision. Whoever may create one can fill it, and label it so that the controller watches it:
// of one that no pool owns little is left, and of one that a pool owns what that could have itself. It has data only if its name
// is the digest of what a pool can have, and without what the controller would not have written there.
func trimmed(kept *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	out := &appsv1.ControllerRevision{
		TypeMeta: kept.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kept.Namespace, Name: kept.Name, UID: kept.UID, ResourceVersion: kept.ResourceVersion,
			CreationTimestamp: kept.CreationTimestamp, DeletionTimestamp: kept.DeletionTimestamp,
		},
		Revision: kept.Revision,
	}
	if pool, ok := kept.Labels[v1alpha1.PoolLabel]; ok {
		out.Labels = map[string]string{v1alpha1.PoolLabel: pool}
	}
	if over := kept.Annotations[v1alpha1.UndoOverAnnotation]; over != "" && len(over) <= len(time.RFC3339) {
		out.Annotations = map[string]string{v1alpha1.UndoOverAnnotation: over}
	}
	owner := metav1.GetControllerOf(kept)
	if !ownedByPool(owner) || len(owner.Name)+len(owner.UID) > maxOwner {
		return out
	}
	out.OwnerReferences = []metav1.OwnerReference{*owner}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: kept.Namespace, Name: owner.Name, UID: owner.UID}}
	if content, ok := revision.Kept(pool, kept); ok {
		if data, err := content.Encode(); err == nil {
			out.Data.Raw = data
		}
	}
	return out
}

func newRevision(pool *v1alpha1.WindowsNodePool, name string, data []byte, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: name, Labels: pool.RevisionLabels(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsNodePool", Name: pool.Name, UID: pool.UID, Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// inUse says whether hosts of a pool have a revision, are given it, or can go back to it. Hosts may still be given one after the template has
// changed again, and what they work with is known only later.
func inUse(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, name string) bool {
	back := pool.Status.RolledBack
	return name == pool.Status.CurrentRevision || back != nil && name == back.To || slices.Contains(pool.Status.Worked(), name) ||
		slices.ContainsFunc(instances, func(i *v1alpha1.WindowsInstance) bool {
			op := i.Status.Operation
			return i.Status.PoolRevision == name || i.Status.PreviousPoolRevision == name || i.Status.DesiredPoolRevision == name ||
				op.Active() && op.PoolRevision == name
		})
}
