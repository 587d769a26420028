// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// tried counts the hosts on which a change that a host is to get was tried, or is being tried. Where the host works with the newest revision
// of its pool already, or is kept from that, those count that got what they have since a host lacks something: the others have tried nothing, and it is
// a change of that host alone. Else those count that have that revision, whatever else they lack since.
func (s *sum) tried(h *host) int {
	if h.hasNewest || h.heldBack {
		return s.gotSince
	}
	return s.newest
}

// hasNewest says whether the host of an instance works with the newest revision of its pool, or did so before what is to be changed now. One that
// was given it says only at its next probe that it works with it, and later if something else became desired before, which it gets first.
func hasNewest(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	newest := pool.Status.UpdateRevision
	if newest == "" {
		return false
	}
	if revision.Had(i, pool) == newest {
		return true
	}
	op := succeededLast(&i.Status, (*v1alpha1.Operation).Disturbed)
	return op != nil && op.PoolRevision == newest
}

// returns says whether the host of an instance, which has worked with another revision of its pool since, is to get one again that all hosts
// of the pool worked with. There is nothing to try then, and who has tried the other one would be left with it. As long as it is not known
// which one is the newest, it does not.
func returns(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	had, status := revision.Had(i, pool), &pool.Status
	return status.ObservedGeneration == pool.Generation && status.UpdateRevision == status.CurrentRevision && had != "" && had != status.UpdateRevision
}
