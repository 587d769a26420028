// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	accorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// left says whether a Node that was written before stays as it is: nobody has confirmed what its host is to have, or the host has not said
// yet what it has, and no operation of its instance is known. What its labels and taints were to be may be lost with the former instance or pool.
func left(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) bool {
	_, written := node.Annotations[v1alpha1.ManagedTaintsAnnotation]
	return written && (instance.Status.Unconfirmed(pool) || !instance.Status.MayHaveChangedHost())
}

// leaves says whether this controller writes nothing to the Node of an instance, whatever is desired. Where there is no such pool at the
// moment, what came of it stays.
func leaves(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) bool {
	return pool == nil && instance.Spec.PoolRef != nil || object.PausedBy(instance, pool) != "" || left(instance, pool, node)
}

// confirmationChanged says whether left may have another answer.
func confirmationChanged(before, after *v1alpha1.WindowsInstanceStatus) bool {
	return !before.UnconfirmedSince.Equal(after.UnconfirmedSince) || !equality.Semantic.DeepEqual(before.Pool, after.Pool) || before.MayHaveChangedHost() != after.MayHaveChangedHost()
}

// Settled says whether writing the Node of an instance would change no label and no taint that the template of its pool is about. pool is nil
// for an instance in none. A Node that was never written has nothing to lose.
func Settled(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (bool, error) {
	if _, written := node.Annotations[v1alpha1.ManagedTaintsAnnotation]; !written {
		return true, nil
	}
	template, err := templateOf(ctx, reader, instance, pool)
	if err != nil || template == nil && (pool != nil || instance.Spec.PoolRef != nil) {
		return false, err
	}
	if _, _, differ := desiredTaints(template, node); differ {
		return false, nil
	}
	want := map[string]string{}
	if template != nil {
		want = template.NodeLabels
	}
	for key, value := range want {
		if has, ok := node.Labels[key]; !ok || has != value {
			return false, nil
		}
	}
	have, err := accorev1.ExtractNode(node, fieldManager)
	if err != nil {
		return false, fmt.Errorf("reading the managed fields of Node %s: %w", node.Name, err)
	}
	if have.ObjectMetaApplyConfiguration == nil {
		return true, nil
	}
	lost := maps.Clone(have.Labels)
	maps.DeleteFunc(lost, func(key, _ string) bool {
		_, wanted := want[key]
		return wanted || key == workerLabel || key == v1alpha1.NamespaceLabel || key == wmco.BYOHLabel
	})
	return len(lost) == 0, nil
}
