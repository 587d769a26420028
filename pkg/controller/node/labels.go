// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	accorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Labels are those that the Node of an instance has once this controller has seen what nodes.Reader sees now: it takes off what it has written
// and the template lacks, and leaves those of others. Whoever restarts a kubelet has to know before. The Node is one with its managed
// fields; it is not changed. nodes are as in [Reconciler.refusal]: what this one would leave alone is not lost. A resolver that answers late
// keeps the caller waiting for lookupTimeout.
func Labels(ctx context.Context, nodes identity.Nodes, instance *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error) {
	if !owned(instance, node) || node.UID != instance.Status.Node.UID || !node.DeletionTimestamp.IsZero() {
		return node.Labels, nil
	}
	pool, err := object.PoolOf(ctx, nodes.Reader, instance)
	if err != nil {
		return nil, err
	}
	if leaves(instance, pool, node) {
		return node.Labels, nil
	}
	// Of a Node that is not certain to be that of the host nothing is taken off. When DNS does not answer it may become certain.
	nodes.Resolver = definite{nodes.Resolver}
	verdict, err := nodes.Verify(ctx, instance, node.Name)
	if err != nil && !errors.Is(err, identity.ErrLookingUp) {
		return nil, fmt.Errorf("finding out whether Node %s is that of the host: %w", node.Name, err)
	}
	if err == nil && verdict != identity.Proven {
		return node.Labels, nil
	}
	template, err := templateOf(ctx, nodes.Reader, instance, pool)
	if err != nil {
		return nil, err
	}
	if template == nil && pool != nil {
		return node.Labels, nil
	}
	have, err := accorev1.ExtractNode(node, fieldManager)
	if err != nil {
		return nil, fmt.Errorf("reading the managed fields of Node %s: %w", node.Name, err)
	}
	labels := map[string]string{}
	maps.Copy(labels, node.Labels)
	if have.ObjectMetaApplyConfiguration != nil {
		for key := range have.Labels {
			delete(labels, key)
		}
	}
	maps.Copy(labels, desiredLabels(instance, template))
	return labels, nil
}

// lookupTimeout bounds a lookup in DNS.
const lookupTimeout = 5 * time.Second

// definite is a resolver whose failures are no answer: [identity.ErrLookingUp], unless DNS says that there is no such name.
type definite struct{ identity.Resolver }

// LookupNetIP implements [identity.Resolver].
func (d definite) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := d.Resolver.LookupNetIP(ctx, network, host)
	if err == nil {
		return addresses, nil
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return nil, err
	}
	return nil, identity.ErrLookingUp
}

// desiredLabels are those that this controller writes to the Node of an instance. Template is nil when the instance is in no pool.
func desiredLabels(instance *v1alpha1.WindowsInstance, template *v1alpha1.PoolTemplate) map[string]string {
	labels := map[string]string{}
	if template != nil {
		maps.Copy(labels, template.NodeLabels)
	}
	labels[workerLabel], labels[v1alpha1.NamespaceLabel] = "", instance.Namespace
	if identity.MachineOf(instance) == nil {
		labels[wmco.BYOHLabel] = "true"
	}
	return labels
}
