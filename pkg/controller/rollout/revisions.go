// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// maxRevisions is how many templates of a pool are kept, as of Deployments by default.
const maxRevisions = 10

// keepRevision keeps the template that a pool has now as a ControllerRevision, so that people can see what was changed and go
// back, and returns its name. The newest one has the highest number. Nothing in it is secret.
func (r *Reconciler) keepRevision(ctx context.Context, pool *v1alpha1.WindowsNodePool) (name string, err error) {
	data, err := templateData(pool)
	if err != nil {
		return "", err
	}
	if name = revisionName(pool, data); name == pool.Status.UpdateRevision {
		// Somebody may have deleted it.
		known, err := object.Get(ctx, r.client, client.ObjectKey{Namespace: pool.Namespace, Name: name}, &appsv1.ControllerRevision{})
		if err != nil {
			return "", fmt.Errorf("reading ControllerRevision %s: %w", name, err)
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
	at := slices.IndexFunc(revisions, func(o appsv1.ControllerRevision) bool { return o.Name == name && bytes.Equal(o.Data.Raw, data) })
	switch {
	case at >= 0 && at == len(revisions)-1:
		return name, nil
	case at >= 0: // somebody went back to it
		again := revisions[at].DeepCopy()
		again.Revision = next
		if err := r.client.Update(ctx, again); err != nil {
			return "", fmt.Errorf("making ControllerRevision %s the newest: %w", name, err)
		}
		return name, nil
	}
	if err := r.client.Create(ctx, newRevision(pool, name, data, next)); err != nil {
		return "", fmt.Errorf("keeping the template of the pool as ControllerRevision %s: %w", name, err)
	}
	for i := range revisions[:max(0, len(revisions)+1-maxRevisions)] {
		if err := r.client.Delete(ctx, &revisions[i]); err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("deleting an old ControllerRevision: %w", err)
		}
	}
	return name, nil
}

// revisionsOf returns the templates that a pool had, the newest one last.
func (r *Reconciler) revisionsOf(ctx context.Context, pool *v1alpha1.WindowsNodePool) ([]appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := r.applier.Live.List(ctx, &list, client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.PoolLabel: pool.Name}); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions: %w", err)
	}
	return v1alpha1.SortRevisions(pool, list.Items), nil
}

func newRevision(pool *v1alpha1.WindowsNodePool, name string, data []byte, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: name, Labels: map[string]string{v1alpha1.PoolLabel: pool.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsNodePool", Name: pool.Name, UID: pool.UID, Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// templateData is what is kept of a pool, in the format of the revisions of a DaemonSet. With what the controller logs in to
// hosts is no part of it: going back to an earlier template must not bring back a key that somebody has replaced.
func templateData(pool *v1alpha1.WindowsNodePool) ([]byte, error) {
	template := pool.Spec.Template
	template.CredentialsSecretRef = nil
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		return nil, fmt.Errorf("encoding the template of the pool: %w", err)
	}
	return data, nil
}

// revisionName is different for each pool and template.
func revisionName(pool *v1alpha1.WindowsNodePool, data []byte) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(pool.UID)) // it never fails
	_, _ = hash.Write(data)
	return pool.Name[:min(len(pool.Name), 200)] + "-" + rand.SafeEncodeString(fmt.Sprint(hash.Sum64()))
}
