// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// MoreThanProgress passes every event about an instance but updates that only say how far its configuration is: most of what is written while many
// hosts are configured, and nothing follows from it before the configuration waits, changes the host or ends.
var MoreThanProgress = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return !okBefore || !okAfter || !onlyProgress(before, after)
	},
}

func onlyProgress(before, after *v1alpha1.WindowsInstance) bool {
	was, is := before.Status.Operation, after.Status.Operation
	if !was.Active() || !is.Active() || is.Type != v1alpha1.OperationReconfigure || before.ResourceVersion == after.ResourceVersion ||
		was.MayHaveChangedHost() != is.MayHaveChangedHost() || before.Status.GivesWay() != after.Status.GivesWay() {
		return false
	}
	return equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after))
}

// withoutProgress is an instance without what [MoreThanProgress] is not about. It shares the rest with i.
func withoutProgress(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	out, op := *i, *i.Status.Operation
	out.ResourceVersion, out.ManagedFields = "", nil
	op.Message, op.Progress, op.BlockedBy, op.Steps = "", nil, nil, nil
	out.Status.Operation = &op
	return &out
}
