// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// sourceGuard keeps people from deleting an instance that a ConfigMap or a
// MachineSet still requests: it would be recreated a moment later. It never blocks
// garbage collection, namespace deletion or the controller.
type sourceGuard struct {
	deleters base.Deleters
}

func (g sourceGuard) checkDelete(ctx context.Context, instance *windows.WindowsInstance) error {
	source := instance.Annotations[v1alpha1.SourceAnnotation]
	if source == "" || instance.DeletionTimestamp != nil || g.deleters.Controller(ctx) || g.deleters.Cluster(ctx) {
		return nil
	}
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
		"the host comes from %s: remove it there, and the instance is deleted too; "+
			"if that source no longer exists and no controller runs, remove the annotation %s and delete again",
		source, v1alpha1.SourceAnnotation))
}

// keyGuard requires the verb trust before the keys that a host or its bastion may present are changed, or the
// machine that it is: whoever changes them decides which machine our key logs in to, and which
// one is changed.
type keyGuard struct {
	authorizer authorizer.Authorizer
	deleters   base.Deleters
	pools      rest.Getter
}

// checkCreate lets the controller alone say which host keys have been proven before: users would have a
// host stand for another one by that. Theirs are in spec.hostKeys, and have to be proven.
func (g keyGuard) checkCreate(ctx context.Context, instance *windows.WindowsInstance) error {
	if len(instance.Status.HostKeys) == 0 || g.deleters.Controller(ctx) {
		return nil
	}
	return apierrors.NewForbidden(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
		"the annotation %s is for windows-controller; name the keys that you trust in spec.hostKeys", v1alpha1.HostKeysAnnotation))
}

func (g keyGuard) checkUpdate(ctx context.Context, instance, old *windows.WindowsInstance) error {
	if machine := instance.Annotations[v1alpha1.MachineAnnotation]; machine != "" && machine != old.Annotations[v1alpha1.MachineAnnotation] {
		if err := requireVerb(ctx, g.authorizer, instance, v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, "setting the annotation "+v1alpha1.MachineAnnotation); err != nil {
			return err
		}
	}
	switch {
	case !slices.Equal(instance.Spec.HostKeys, old.Spec.HostKeys):
		return requireVerb(ctx, g.authorizer, instance, v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, "changing spec.hostKeys")
	case !slices.Equal(instance.Spec.Bastion.Keys(), old.Spec.Bastion.Keys()):
		return requireVerb(ctx, g.authorizer, instance, v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, "changing spec.bastion.hostKeys")
	}
	changes, err := g.changesBastionOfPool(ctx, instance, old)
	if err != nil || !changes {
		return err
	}
	return requireVerb(ctx, g.authorizer, instance, v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, "changing spec.poolRef, and by that the host keys of its bastion,")
}

// changesBastionOfPool says whether an instance has another pool, and by that a bastion with other keys, or none any more.
func (g keyGuard) changesBastionOfPool(ctx context.Context, instance, old *windows.WindowsInstance) (bool, error) {
	if instance.Spec.Bastion != nil || apiequality.Semantic.DeepEqual(instance.Spec.PoolRef, old.Spec.PoolRef) {
		return false, nil // its own comes before that of any pool
	}
	before, known, err := templateOf(ctx, g.pools, old.Spec.PoolRef)
	if err != nil {
		return false, err
	}
	after, _, err := templateOf(ctx, g.pools, instance.Spec.PoolRef)
	if err != nil {
		return false, err
	}
	if !known && old.Status.Bastion != "" {
		return true, nil // nobody knows any more which keys it had
	}
	return !slices.Equal(after.Bastion.Keys(), before.Bastion.Keys()), nil
}

// requireVerb requires a right besides that to write instances: a verb on a resource that
// exists in RBAC rules only, with the name of the instance, in its namespace. Action is what
// requires it. It fails closed, see [base.Require].
func requireVerb(ctx context.Context, a authorizer.Authorizer, instance *windows.WindowsInstance, verb, resource, action string) error {
	return base.RequireVerb(ctx, a, windows.Resource("windowsinstances"), instance, verb, resource, action)
}
