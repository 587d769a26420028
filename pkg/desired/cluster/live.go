// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// Live reads the desired configuration of hosts from the cluster on each call, for
// dry runs: they are rare, and an answer of a minute ago would be a wrong one. [Source] is
// for frequent callers. It may be used concurrently.
type Live struct {
	// Cluster reads the cluster itself and not a cache. Required.
	Cluster client.Reader
	// ReadPool reads a pool. Required.
	ReadPool func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error)
	// Revisions reads ControllerRevisions of pools, perhaps from a cache. Nil: Cluster does.
	Revisions client.Reader
	// Settings are what is not read from the cluster.
	Settings Settings
}

// Build returns the desired configuration of the host of an instance. joins says that the host is no Node
// yet: when it is configured it gets what it joins with, which is not part of the result.
func (l *Live) Build(ctx context.Context, instance *v1alpha1.WindowsInstance) (result *document.Result, joins bool, err error) {
	snapshot, err := Read(ctx, l.Cluster, l.Settings)
	if err != nil {
		return nil, false, err
	}
	host := Host{Instance: instance}
	if host.Pool, err = l.pool(ctx, instance); err != nil {
		return nil, false, err
	}
	if host.Node, err = l.node(ctx, instance); err != nil {
		return nil, false, err
	}
	if host.Back, err = l.backTo(ctx, snapshot, instance, host.Pool, host.Node); err != nil {
		return nil, false, err
	}
	result, err = snapshot.Build(host)
	return result, host.Node == nil, err
}

// Adoptable returns why the host of an instance cannot be taken over from WMCO now: as Build does, and when WMCO would be started
// again.
func (l *Live) Adoptable(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if _, _, err := l.Build(ctx, instance); err != nil {
		return err
	}
	return EnsureNotComingBack(ctx, l.Cluster)
}

// pool returns the pool of an instance; nil when it has none, or one that does not exist.
func (l *Live) pool(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsNodePool, error) {
	ref := instance.Spec.PoolRef
	if ref == nil {
		return nil, nil //nolint:nilnil // no pool is an ordinary answer
	}
	pool, err := l.ReadPool(ctx, instance.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // likewise
	}
	if err != nil {
		return nil, fmt.Errorf("reading pool %s: %w", ref.Name, err)
	}
	return pool, nil
}

// node returns the Node that the status of an instance names; nil when there is none any more.
func (l *Live) node(ctx context.Context, instance *v1alpha1.WindowsInstance) (*corev1.Node, error) {
	ref := instance.Status.Node
	if ref == nil {
		return nil, nil //nolint:nilnil // no Node is an ordinary answer
	}
	node := &corev1.Node{}
	err := l.Cluster.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
	if apierrors.IsNotFound(err) || err == nil && node.UID != ref.UID {
		return nil, nil //nolint:nilnil // likewise
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", ref.Name, err)
	}
	return node, nil
}
