// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RevisionLabels are those of the ControllerRevisions of the pool. The name of a pool may be longer than a label: of such a one it is a digest.
func (p *WindowsNodePool) RevisionLabels() map[string]string {
	name := p.Name
	if len(name) > content.LabelValueMaxLength {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:16])
	}
	return map[string]string{PoolLabel: name}
}

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

// RolledBack is the rollback of a revision, if that is the one of the pool now, or that somebody has undone it. Nil: it is rolled out,
// or is to be again because somebody has resumed it.
func (p *WindowsNodePool) RolledBack(revision string) *PoolRollback {
	back, resumed := p.Status.RolledBack, p.Spec.UpdateStrategy.RollingUpdate.ResumedAt
	if back == nil || back.Revision != revision || resumed != nil && !resumed.Before(&back.Time) {
		return nil
	}
	return back
}

// Broke says whether the revision broke the host of an instance.
func (r *PoolRollback) Broke(instance string) bool { return slices.Contains(r.Instances, instance) }

// ByPerson says whether somebody has undone the revision, so that all hosts go back. R may be nil.
func (r *PoolRollback) ByPerson() bool { return r != nil && r.RequestedBy != "" }

// Past says in messages what had become of the revision, after its name.
func (r *PoolRollback) Past() string {
	if r.ByPerson() {
		return "which " + r.RequestedBy + " had undone"
	}
	return "which was rolled back because it broke hosts"
}

// Keeps says whether the host of an instance keeps the revision though somebody has undone it, as it can get no other. R may be nil.
func (r *PoolRollback) Keeps(instance string) bool {
	return r.ByPerson() && slices.Contains(r.WithoutPrograms, instance)
}

// Undo is what somebody has asked to be undone of a revision. Nil: nothing, or that is over because somebody has resumed it since.
func (p *WindowsNodePool) Undo(revision string) *PoolUndo {
	undo, resumed := p.Spec.UpdateStrategy.RollingUpdate.Undo, p.Spec.UpdateStrategy.RollingUpdate.ResumedAt
	if undo == nil || undo.Revision != revision || undo.RequestedBy == "" || undo.RequestedAt == nil || resumed != nil && !resumed.Before(undo.RequestedAt) {
		return nil
	}
	return undo
}

// Follows says whether a rollback is what was asked for. R may be nil.
func (u *PoolUndo) Follows(r *PoolRollback) bool {
	return r.ByPerson() && r.Revision == u.Revision && r.To == u.To && r.RequestedBy == u.RequestedBy && r.Time.Equal(u.RequestedAt)
}

// Worked are the revisions that the hosts of a pool can go back to, the newest last. Releases before have recorded only one.
func (s *WindowsNodePoolStatus) Worked() []string {
	if len(s.WorkedRevisions) > 0 || s.CurrentRevision == "" {
		return s.WorkedRevisions
	}
	return []string{s.CurrentRevision}
}
