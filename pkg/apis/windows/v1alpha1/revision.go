// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PoolLabel names the WindowsNodePool of a ControllerRevision, which has a template that the pool had.
const PoolLabel = "windows.openshift.io/pool"

// SortRevisions returns those of the ControllerRevisions that are of a pool, and not of one that had its name
// before, the newest one last.
func SortRevisions(pool *WindowsNodePool, revisions []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	var out []appsv1.ControllerRevision
	for i := range revisions {
		if metav1.IsControlledBy(&revisions[i], pool) {
			out = append(out, revisions[i])
		}
	}
	slices.SortFunc(out, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}

// RolledBack is the rollback of a revision, if that is the one of the pool now. Nil: it is rolled out, or is to be
// again because somebody has resumed it.
func (p *WindowsNodePool) RolledBack(revision string) *PoolRollback {
	back, resumed := p.Status.RolledBack, p.Spec.UpdateStrategy.RollingUpdate.ResumedAt
	if back == nil || back.Revision != revision || resumed != nil && !resumed.Before(&back.Time) {
		return nil
	}
	return back
}

// Broke says whether the revision broke the host of an instance.
func (r *PoolRollback) Broke(instance string) bool { return slices.Contains(r.Instances, instance) }
