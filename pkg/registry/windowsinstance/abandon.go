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
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// verbAbandon is the RBAC verb on windowsinstances.
const verbAbandon = "abandon"

// abandonGuard asks for the verb abandon before a host may be left behind as it is,
// with the services and the credentials of a node on it: by its removal policy, or by
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

// authorize fails closed: without a user or an answer nobody may.
func (g abandonGuard) authorize(ctx context.Context, instance *windows.WindowsInstance, what string) error {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
			"%s leaves the host as it is, with what was put on it, and needs the verb %q on windowsinstances in namespace %q: %s",
			what, verbAbandon, instance.Namespace, why))
	}
	who, _ := genericapirequest.UserFrom(ctx)
	return base.Require(ctx, g.authorizer, verbOn(instance, who, verbAbandon), "asking whether the host may be abandoned", forbidden)
}
