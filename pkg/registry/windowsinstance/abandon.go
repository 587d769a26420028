// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// abandonRight is the right to leave a host as it is.
var abandonRight = right{verb: v1alpha1.VerbAbandon, resource: v1alpha1.ResourceHosts}

// abandonGuard asks for a right of its own before a host may be left behind as it is, with the services and the credentials of a node on it: by its removal policy, or by
// taking the finalizer away that waits until the host is clean.
type abandonGuard struct {
	authorizer authorizer.Authorizer
}

func (g abandonGuard) validateCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return base.Guard(func(ctx context.Context, instance *windows.WindowsInstance) error {
		if !mayAbandon(instance) {
			return nil
		}
		return g.authorize(ctx, instance, "setting spec.removal")
	}, next)
}

func (g abandonGuard) validateUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return base.GuardUpdate(func(ctx context.Context, instance, old *windows.WindowsInstance) error {
		if slices.Contains(old.Finalizers, v1alpha1.HostFinalizer) && !slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) {
			if err := g.authorize(ctx, instance, "removing the finalizer "+v1alpha1.HostFinalizer); err != nil {
				return err
			}
		}
		if mayAbandon(instance) && !apiequality.Semantic.DeepEqual(instance.Spec.Removal, old.Spec.Removal) {
			return g.authorize(ctx, instance, "changing spec.removal")
		}
		return nil
	}, next)
}

// mayAbandon says whether the host of an instance is, or may come to be, left as it is.
func mayAbandon(instance *windows.WindowsInstance) bool {
	removal := instance.Spec.Removal
	return removal != nil && (removal.Policy == windows.RemovalAbandon || removal.After != nil)
}

func (g abandonGuard) authorize(ctx context.Context, instance *windows.WindowsInstance, what string) error {
	return abandonRight.require(ctx, g.authorizer, instance,
		what+" leaves the host as it is, with what was put on it, and", "asking whether the host may be abandoned")
}
