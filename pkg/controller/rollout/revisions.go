// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"slices"

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
	// maxRevisionBytes is how long the data of a ControllerRevision may be that is kept: several times what the longest template
	// that the API takes and the programs of a payload have.
	maxRevisionBytes = 256 << 10
	// maxNumber is above the number of any revision that the controller has made. Kubernetes takes any number, and none that follows the highest.
	maxNumber = 1 << 40
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
	if len(data) > maxRevisionBytes {
		return "", fmt.Errorf("the template of the pool and its programs are %d bytes, which is more than the %d that are kept as a ControllerRevision", len(data), maxRevisionBytes)
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
	revisions, err := r.revisionsOf(ctx, pool)
	if err != nil {
		return "", err
	}
	next := int64(1)
	if len(revisions) > 0 {
		next = revisions[len(revisions)-1].Revision + 1
	}
	at := slices.IndexFunc(revisions, func(o appsv1.ControllerRevision) bool { return o.Name == name })
	switch {
	case at >= 0 && at == len(revisions)-1:
		return name, nil
	case at >= 0: // somebody went back to it
		again := revisions[at].DeepCopy()
		again.Revision = next
		noteOver(pool, again)
		if err := r.client.Update(ctx, again); err != nil {
			return "", fmt.Errorf("making ControllerRevision %s the newest: %w", name, err)
		}
		return name, nil
	}
	made := newRevision(pool, name, data, next)
	noteOver(pool, made)
	if err := r.client.Create(ctx, made); err != nil {
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

// revisionsOf returns the templates that a pool had, the newest one last. What somebody else has made in its name is none.
func (r *Reconciler) revisionsOf(ctx context.Context, pool *v1alpha1.WindowsNodePool) ([]appsv1.ControllerRevision, error) {
	var own []appsv1.ControllerRevision
	for next := ""; ; {
		var list appsv1.ControllerRevisionList
		if err := r.applier.Live.List(ctx, &list, client.InNamespace(pool.Namespace), client.MatchingLabels(pool.RevisionLabels()),
			client.Limit(revisionsPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list ControllerRevisions: %w", err)
		}
		for _, kept := range list.Items {
			if kept.Revision < maxNumber && len(kept.Data.Raw) <= maxRevisionBytes && revision.Made(pool, &kept) {
				own = append(own, kept)
			}
		}
		if next = list.Continue; next == "" {
			return v1alpha1.SortRevisions(pool, own), nil
		}
	}
}

// ownedByPool says whether a controller of an object is a pool. Nil: there is none.
func ownedByPool(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "WindowsNodePool" && owner.APIVersion == v1alpha1.SchemeGroupVersion.String()
}

// withoutForeignData empties the data of a ControllerRevision that the controller cannot have made, and what it does not read of any.
func withoutForeignData(object any) (any, error) {
	if kept, ok := object.(*appsv1.ControllerRevision); ok {
		kept.ManagedFields = nil
		if !ownedByPool(metav1.GetControllerOf(kept)) || len(kept.Data.Raw) > maxRevisionBytes {
			kept.Data = runtime.RawExtension{}
		}
	}
	return object, nil
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

// inUse says whether hosts of a pool have a revision, or can go back to it.
func inUse(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, name string) bool {
	back := pool.Status.RolledBack
	return name == pool.Status.CurrentRevision || back != nil && name == back.To || slices.Contains(pool.Status.Worked(), name) ||
		slices.ContainsFunc(instances, func(i *v1alpha1.WindowsInstance) bool {
			return i.Status.PoolRevision == name || i.Status.PreviousPoolRevision == name
		})
}
