// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxNamed is how many instances a message names.
const maxNamed = 5

// deleteGuard keeps a pool as long as instances name it, which need its credentials and its
// template until their hosts are clean, and from people also as long as it has a source, which
// would have it made again. The deletion of a namespace is not held up.
type deleteGuard struct {
	deleters base.Deleters
	members  func(ctx context.Context, pool string) ([]string, error)
}

func (g deleteGuard) check(ctx context.Context, pool *windows.WindowsNodePool) error {
	if pool.DeletionTimestamp != nil {
		return nil
	}
	if since, err := g.deleters.EndOfNamespace(ctx, pool.Namespace); err != nil || !since.IsZero() {
		return err
	}
	members, err := g.members(ctx, pool.Name)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("listing the instances of pool %s: %w", pool.Name, err))
	}
	conflict := func(err error) error {
		return apierrors.NewConflict(windows.Resource("windowsnodepools"), pool.Name, err)
	}
	if len(members) > 0 {
		return conflict(fmt.Errorf("the pool still has %s; %s", describe(members), remedy(pool)))
	}
	source := pool.Annotations[v1alpha1.SourceAnnotation]
	if source == "" || g.deleters.Controller(ctx) || g.deleters.Cluster(ctx) {
		return nil
	}
	return conflict(errors.New("the pool is made from " + source + " and goes with it: delete that; " +
		"if it no longer exists and no controller runs, remove the annotation " + v1alpha1.SourceAnnotation + " and delete again"))
}

func describe(members []string) string {
	if len(members) == 1 {
		return "instance " + members[0]
	}
	return fmt.Sprintf("%d instances, %s", len(members), words.Enumerate(members, maxNamed))
}

// remedy says how a pool loses its instances.
func remedy(pool *windows.WindowsNodePool) string {
	source := &pool.Spec.Source
	switch {
	case source.ConfigMap != nil:
		return fmt.Sprintf("to remove hosts, remove their entries from ConfigMap %s; the pool goes with the ConfigMap", source.ConfigMap.Name)
	case source.MachineSet != nil:
		return fmt.Sprintf("to remove hosts, scale or delete MachineSet %s; the pool goes with it", source.MachineSet.Name)
	default:
		return "first delete them, or give them another pool in spec.poolRef"
	}
}
