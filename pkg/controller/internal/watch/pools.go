// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// PoolChanged lets pass what hosts of a pool are to be like: its spec, that a revision was rolled back, and that it was made again while
// nobody watched.
var PoolChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsNodePool)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsNodePool)
		return okBefore && okAfter && (before.UID != after.UID || !equality.Semantic.DeepEqual(before.Status.RolledBack, after.Status.RolledBack))
	},
})
