// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations of Linux Nodes. The daemon on a node, whose part a test plays, has it go to the configuration that is desired,
// and then says that it has that; Nodes without the first one are nobody's.
const (
	CurrentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	DesiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
)

// machinesOf are the Linux Nodes of a pool, by name. A Node that a custom pool selects is no longer in that of the workers.
func machinesOf(pool *mcfgv1.MachineConfigPool, pools []mcfgv1.MachineConfigPool, nodes []corev1.Node) []*corev1.Node {
	selects := func(p *mcfgv1.MachineConfigPool, node *corev1.Node) bool {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
		return err == nil && !selector.Empty() && selector.Matches(labels.Set(node.Labels))
	}
	var machines []*corev1.Node
	for i := range nodes {
		node := &nodes[i]
		if node.Annotations[CurrentConfigAnnotation] == "" || !selects(pool, node) {
			continue
		}
		another := false
		for j := range pools {
			other := &pools[j]
			another = another || pool.Name == workerRole && other.Name != workerRole && selects(other, node)
		}
		if !another {
			machines = append(machines, node)
		}
	}
	return sortedByName(machines)
}

// rollOut has one node after the other go to the configuration of its pool, unless that is paused, and says how far that is. Only
// when all of them have it, that is said in the status; a pool without nodes has it at once.
func (m machineConfigOperator) rollOut(ctx context.Context, pool *mcfgv1.MachineConfigPool, machines []*corev1.Node) error {
	want := pool.Spec.Configuration.Name
	var next *corev1.Node
	underWay, updated := false, int32(0)
	for _, node := range machines {
		current, desired := node.Annotations[CurrentConfigAnnotation], node.Annotations[DesiredConfigAnnotation]
		switch {
		case desired != "" && current != desired:
			underWay = true
		case current == want:
			updated++
		case next == nil:
			next = node
		}
	}
	if next != nil && !underWay && !pool.Spec.Paused {
		before := client.MergeFrom(next.DeepCopy())
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, DesiredConfigAnnotation, want)
		if err := m.client.Patch(ctx, next, before); err != nil {
			return err
		}
	}
	status := mcfgv1.MachineConfigPoolStatus{
		ObservedGeneration: pool.Generation, Configuration: pool.Status.Configuration, Conditions: pool.Status.Conditions,
		MachineCount: int32(len(machines)), UpdatedMachineCount: updated, ReadyMachineCount: updated, UnavailableMachineCount: int32(len(machines)) - updated,
	}
	if updated == status.MachineCount {
		status.Configuration = pool.Spec.Configuration
	}
	if equality.Semantic.DeepEqual(pool.Status, status) {
		return nil
	}
	pool.Status = status
	return m.client.Status().Update(ctx, pool)
}
