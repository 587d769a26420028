// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
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
	found, err := object.Get(ctx, reader, client.ObjectKey{Namespace: pool.Namespace, Name: name}, &appsv1.ControllerRevision{})
	if err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s: %w", name, err)
	}
	if found == nil {
		return nil, nil //nolint:nilnil // likewise
	}
	kept, ok := revision.Kept(pool, found)
	if !ok {
		return nil, nil //nolint:nilnil // likewise
	}
	return &kept.Template, nil
}
