// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// abandonGuard requires the verb abandon before a host may be left as it is, with the
// services and the credentials of a node on it: by its removal policy, or by removing the
// finalizer that waits until the host is clean.
type abandonGuard struct {
	authorizer authorizer.Authorizer
}

func (g abandonGuard) checkCreate(ctx context.Context, instance *windows.WindowsInstance) error {
	if !mayAbandon(instance) {
		return nil
	}
	return g.authorize(ctx, instance, "setting spec.removal")
}

func (g abandonGuard) checkUpdate(ctx context.Context, instance, old *windows.WindowsInstance) error {
	if slices.Contains(old.Finalizers, v1alpha1.HostFinalizer) && !slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) {
		if err := g.authorize(ctx, instance, "removing the finalizer "+v1alpha1.HostFinalizer); err != nil {
			return err
		}
	}
	if mayAbandon(instance) && !apiequality.Semantic.DeepEqual(instance.Spec.Removal, old.Spec.Removal) {
		return g.authorize(ctx, instance, "changing spec.removal")
	}
	return nil
}

// mayAbandon says whether the host of an instance is, or may later be, left as it is.
func mayAbandon(instance *windows.WindowsInstance) bool {
	removal := instance.Spec.Removal
	return removal != nil && (removal.Policy == windows.RemovalAbandon || removal.AfterSeconds != nil)
}

func (g abandonGuard) authorize(ctx context.Context, instance *windows.WindowsInstance, action string) error {
	return requireVerb(ctx, g.authorizer, instance, v1alpha1.VerbAbandon, v1alpha1.ResourceHosts,
		action+" leaves the host as it is, with everything that was installed on it, and")
}
