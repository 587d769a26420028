// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// credentialGuard requires the right to use the credentials that a pool gives to its
// hosts, and those of its bastion, which decides with where they are sent: when it is created, and whenever they change. That a new pool without a Secret
// requires the right to the cluster-wide key matters: instances that name the pool may
// exist already, created by somebody who has no right to that key.
type credentialGuard struct {
	authorizer authorizer.Authorizer
}

func (g credentialGuard) checkCreate(ctx context.Context, pool *windows.WindowsNodePool) error {
	resource := windows.Resource("windowsnodepools")
	if err := base.AuthorizeCredentials(ctx, g.authorizer, resource, pool, secretOf(pool)); err != nil {
		return err
	}
	if bastion := pool.Spec.Template.Bastion; bastion != nil {
		return base.AuthorizeBastion(ctx, g.authorizer, resource, pool, bastion.CredentialsSecretRef.Name)
	}
	return nil
}

func (g credentialGuard) checkUpdate(ctx context.Context, pool, old *windows.WindowsNodePool) error {
	if secretOf(pool) == secretOf(old) && apiequality.Semantic.DeepEqual(pool.Spec.Template.Bastion, old.Spec.Template.Bastion) {
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
