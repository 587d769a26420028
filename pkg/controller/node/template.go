// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
)

// templateOf is what the Node of an instance gets its labels and taints from: the template of its pool, or the one that it has gone back to,
// or stays with, because somebody has undone that. What a rollback takes back because it broke hosts is not among it. Nil: there is no pool, or the
// revision that it has instead is not kept any more, so that labels and taints stay as they are.
func templateOf(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (*v1alpha1.PoolTemplate, error) {
	if pool == nil {
		return nil, nil //nolint:nilnil // no pool is an ordinary answer
	}
	newest := pool.Status.UpdateRevision
	name := revision.BackTo(instance, pool, newest)
	if name == "" || !pool.RolledBack(newest).ByPerson() {
		return &pool.Spec.Template, nil
	}
	kept, _, err := revision.Read(ctx, reader, pool, name)
	if kept == nil || err != nil {
		return nil, err
	}
	return &kept.Template, nil
}
