// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// nodes reads the Nodes of Windows hosts, by name. They belong to the cache and are only read.
func (s *Scheduler) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	var list corev1.NodeList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.MatchingLabels{corev1.LabelOSStable: string(corev1.Windows)}); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	byName := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// nodeOf is the Node of an instance, nil if it has none.
func nodeOf(i *v1alpha1.WindowsInstance, nodes map[string]*corev1.Node) *corev1.Node {
	if i.Status.Node == nil {
		return nil
	}
	if node := nodes[i.Status.Node.Name]; node != nil && node.UID == i.Status.Node.UID {
		return node
	}
	return nil
}

// observe notes what the Node of a host says itself, nil if it is gone. The condition of the instance may be older, as after the start
// of a process, which has not looked at any host yet: a Node that has gone down meanwhile must not count as one that works. That of a host
// which leaves does not come back, and counts no more: the removal may fail, or wait for somebody, for long.
func (h *host) observe(node *corev1.Node) {
	switch {
	case node == nil && h.leaving:
		h.node = false
	case node == nil:
		h.ready, h.lost = false, h.lost || h.node
	default:
		if h.ready && !nodeReady(node) {
			if c := object.NodeReady(node); c != nil {
				h.downSince = c.LastTransitionTime.Time
			}
		}
		h.cordoned, h.ready = node.Spec.Unschedulable, h.ready && nodeReady(node)
		h.cordonedByOthers = h.cordoned && !h.cordonedByUs(node)
		h.drained = h.cordoned && h.wasDrained(node)
		h.interrupted = drain.MarkedFor(node, string(v1alpha1.OperationReconfigure)) != ""
	}
}

// wasDrained says whether the operation that has cordoned a Node had its pods leave: an update or a restart that leaves it cordoned, a removal,
// or a drain that succeeded.
func (h *host) wasDrained(node *corev1.Node) bool {
	id, _, _ := strings.Cut(node.Annotations[v1alpha1.CordonedByAnnotation], " ")
	return id != "" && (h.leaving || slices.Contains(h.drains, id) ||
		drain.MarkedFor(node, string(v1alpha1.OperationReconfigure)) != "" || drain.MarkedFor(node, string(v1alpha1.OperationReboot)) != "")
}

// cordonedByUs says whether the cordon of a Node is that of an update or a restart of the controller, or of a removal that is still wanted. What
// a person has asked for is theirs: with a drain they want the Node to stay so, and what failed they may be at work on.
func (h *host) cordonedByUs(node *corev1.Node) bool {
	if h.leaving {
		return node.Annotations[v1alpha1.CordonedByAnnotation] != ""
	}
	return slices.ContainsFunc([]v1alpha1.OperationType{v1alpha1.OperationReconfigure, v1alpha1.OperationReboot}, func(t v1alpha1.OperationType) bool {
		return drain.IsMarked(node, string(t), v1alpha1.ControllerRequester)
	})
}

// nodeReady says whether a Node is ready.
func nodeReady(node *corev1.Node) bool {
	c := object.NodeReady(node)
	return c != nil && c.Status == corev1.ConditionTrue
}
