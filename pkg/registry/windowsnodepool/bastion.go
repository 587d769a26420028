// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// bastionGuard requires the verb trust before the keys that the bastion of a pool may present are changed, also from none: who
// has the bastion decides which machines our programs find at the addresses of the hosts. A host that was never met is trusted
// at its first contact, and gets the credentials of its instance, which those who write pools may have no right to. There may be
// such instances before the pool.
type bastionGuard struct {
	authorizer authorizer.Authorizer
}

func (g bastionGuard) checkCreate(ctx context.Context, pool *windows.WindowsNodePool) error {
	return g.checkUpdate(ctx, pool, &windows.WindowsNodePool{})
}

func (g bastionGuard) checkUpdate(ctx context.Context, pool, old *windows.WindowsNodePool) error {
	if slices.Equal(pool.Spec.Template.Bastion.Keys(), old.Spec.Template.Bastion.Keys()) {
		return nil
	}
	return base.RequireVerb(ctx, g.authorizer, windows.Resource("windowsnodepools"), pool, v1alpha1.VerbTrust, v1alpha1.ResourceHostKeys, "changing spec.template.bastion.hostKeys")
}
