// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// detachPatience is for how long the volumes of pods that have left may be in use. A kubelet unmounts them, and says so with its next report;
// a DaemonSet's stay.
const detachPatience = 2 * time.Minute

// awaitVolumes waits, before the kubelet of a Node is stopped, until it has unmounted the volumes of the pods that have left, and for a host that is
// removed also until they are detached: the pods wait elsewhere for the volumes, and kube-controller-manager takes them
// from a kubelet that does not report after six minutes only. What is left is returned as the end of a message.
func (e *execution) awaitVolumes(ctx context.Context) (string, error) {
	op := e.operation()
	removes := op.Type == v1alpha1.OperationRemove
	if !removes && op.Type != v1alpha1.OperationReboot && (op.Type != v1alpha1.OperationReconfigure || op.Impact != v1alpha1.ImpactReboot) {
		return "", nil
	}
	left, failed := "", error(nil)
	err := e.waitUntil(ctx, e.clock.Now().Add(detachPatience), fmt.Sprintf("Waiting until volumes are detached from Node %s.", op.Node.Name), func(ctx context.Context) (string, error) {
		var node *corev1.Node
		if node, failed = e.readNode(ctx, op.Node.Name); failed != nil {
			return "", failed
		}
		left = attached(node, op, removes, e.clock.Now())
		return left, nil
	})
	switch {
	case err == nil:
		return "", nil
	case failed != nil || ctx.Err() != nil:
		return "", err
	}
	return fmt.Sprintf(" %s, and were not waited for any longer: pods that need them elsewhere may wait for some minutes.", left), nil
}

// attached says which volumes of a Node are in use. Empty: none, or nobody speaks for the Node who could unmount them.
func attached(node *corev1.Node, op *v1alpha1.Operation, removes bool, now time.Time) string {
	if node == nil || node.UID != op.Node.UID || isSilent(node, now) {
		return ""
	}
	if n := len(node.Status.VolumesInUse); n > 0 {
		return fmt.Sprintf("Volumes that its kubelet uses: %d, the first is %s", n, node.Status.VolumesInUse[0])
	}
	if n := len(node.Status.VolumesAttached); n > 0 && removes {
		return fmt.Sprintf("Volumes that are attached: %d, the first is %s", n, node.Status.VolumesAttached[0].Name)
	}
	return ""
}
