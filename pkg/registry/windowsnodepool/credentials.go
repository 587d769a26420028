// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// credentialGuard requires the right to use the credentials that a pool gives to its
// hosts: when it is created, and whenever they change. That a new pool without a Secret
// requires the right to the cluster-wide key matters: instances that name the pool may
// exist already, created by somebody who has no right to that key.
type credentialGuard struct {
	authorizer authorizer.Authorizer
}

func (g credentialGuard) checkCreate(ctx context.Context, pool *windows.WindowsNodePool) error {
	return base.AuthorizeCredentials(ctx, g.authorizer, windows.Resource("windowsnodepools"), pool, secretOf(pool))
}

func (g credentialGuard) checkUpdate(ctx context.Context, pool, old *windows.WindowsNodePool) error {
	if secretOf(pool) == secretOf(old) {
		return nil
	}
	return g.checkCreate(ctx, pool)
}

func secretOf(pool *windows.WindowsNodePool) string {
	if ref := pool.Spec.Template.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return ""
}
