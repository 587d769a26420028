// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Options say how pods leave a Node. The zero value is the most careful drain.
type Options struct {
	// NodeUID is that of the Node, whose pods are found by its name only: those of another one that has got the name meanwhile
	// stay, and the error is [ErrNodeReplaced]. Empty: any Node of the name.
	NodeUID types.UID
	// GracePeriodSeconds replaces the terminationGracePeriodSeconds of the pods. 0 kills
	// them at once. Nil: each pod gets what it asks for, but see Unreachable.
	GracePeriodSeconds *int64
	// Unreachable says whether the cluster has lost the kubelet of the Node, so that nobody can end a pod gracefully: pods that are asked to
	// leave meanwhile get one second, also those that are being deleted already, if GracePeriodSeconds is nil. They are waited for all the same.
	// It is called as Dead is, and must be sure: a kubelet that is well kills pods at once for it. Nil: it has not.
	Unreachable func() bool
	// Deadline is when to give up. The zero value: never.
	Deadline time.Time
	// Extend is asked at the deadline for another one, which ends the drain unless it is later. It is called
	// from the goroutine of Run. Nil: there is none.
	Extend func() time.Time
	// IgnoreDaemonSets lets pods of DaemonSets stay. While false a Node that has any is
	// not drained.
	IgnoreDaemonSets bool
	// DeleteEmptyDirData has pods with emptyDir volumes leave too. While false a Node that
	// has any is not drained.
	DeleteEmptyDirData bool
	// Force has pods leave that no controller recreates. While false a Node that has any
	// is not drained.
	Force bool
	// DisableEviction deletes pods instead of evicting them, whatever their
	// PodDisruptionBudgets say.
	DisableEviction bool
	// PodSelector is a label selector; only pods that match leave. Empty: all.
	PodSelector string
	// FieldPath is what precedes the names of options in messages, so that people find where to
	// set them. Empty: nothing.
	FieldPath string
	// SkipWaitForDelete is for how long after the end of its grace period a pod that is
	// being deleted is waited for. 0: until the deadline, but see Dead.
	SkipWaitForDelete time.Duration
	// Dead says whether the kubelet of the Node is dead, so that nobody says that a pod has ended: while it is, a pod that is being deleted is
	// waited for a minute, from the end of its grace period or from when the kubelet was found dead, if SkipWaitForDelete is 0. It is called
	// from the goroutine of Run, once a minute or more often, and must not take long. Nil: it is not.
	Dead func() bool
}

// dead says whether pods are waited for as those of a dead kubelet are.
func (o Options) dead() bool { return o.SkipWaitForDelete == 0 && o.Dead != nil && o.Dead() }

// unreachable says whether pods end as those of a kubelet do that the cluster has lost.
func (o Options) unreachable() bool {
	return o.GracePeriodSeconds == nil && o.Unreachable != nil && o.Unreachable()
}

// Progress says how far a drain is. Total is the sum of Gone, Abandoned and Left.
type Progress struct {
	// Total is how many pods are to leave.
	Total int
	// Gone is how many have left.
	Gone int
	// Abandoned is how many are not waited for any more, see [Options.SkipWaitForDelete] and [Options.Dead].
	Abandoned int
	// Terminating is how many of those that are left are being deleted.
	Terminating int
	// Blocked are the pods whose eviction is refused, sorted by namespace and name.
	Blocked []v1alpha1.BlockedPod
	// Staying are pods that came after the first look and tolerate the cordon: evicted,
	// they would come back at once. They are left where they are.
	Staying []string
}

// Left is how many pods are still there and waited for.
func (p Progress) Left() int { return p.Total - p.Gone - p.Abandoned }
