// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"

	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// credentialGuard asks for the right to the credentials that a pool gives to its
// hosts: when it is made, and whenever they change. That a new pool without a Secret
// is asked for the cluster-wide key matters: instances that name it may be there
// already, made by somebody who has no right to that key.
type credentialGuard struct {
	credentials base.CredentialAuthorizer
}

func (g credentialGuard) validateCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return base.Guard(g.authorize, next)
}

func (g credentialGuard) validateUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return base.GuardUpdate(func(ctx context.Context, pool, old *windows.WindowsNodePool) error {
		if credentialOf(pool) == credentialOf(old) {
			return nil
		}
		return g.authorize(ctx, pool)
	}, next)
}

func (g credentialGuard) authorize(ctx context.Context, pool *windows.WindowsNodePool) error {
	return g.credentials.Authorize(ctx, windows.Resource("windowsnodepools"), pool.Namespace, pool.Name, credentialOf(pool))
}

func credentialOf(pool *windows.WindowsNodePool) base.Credential {
	if ref := pool.Spec.Template.CredentialsSecretRef; ref != nil {
		return base.Credential{Secret: ref.Name}
	}
	return base.Credential{}
}
