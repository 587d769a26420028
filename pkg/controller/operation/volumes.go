// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// detachPatience is for how long the volumes of pods that have left may be in use. A kubelet unmounts them, and says so with its next report;
// a DaemonSet's stay.
const detachPatience = 2 * time.Minute

// errVolumesAttached ends the wait for volumes.
var errVolumesAttached = errors.New("volumes are attached")

// awaitVolumes waits, before the kubelet of a Node is stopped, until it has unmounted the volumes of the pods that have left, and for a host that is
// removed also until they are detached: the pods wait elsewhere for the volumes, and kube-controller-manager takes them
// from a kubelet that does not report after six minutes only. What is left is returned as the end of a message.
func (e *execution) awaitVolumes(ctx context.Context) (string, error) {
	op := e.operation()
	removes := op.Type == v1alpha1.OperationRemove
	if !removes && op.Type != v1alpha1.OperationReboot && (op.Type != v1alpha1.OperationReconfigure || op.Impact != v1alpha1.ImpactReboot) {
		return "", nil
	}
	began, left := e.clock.Now(), ""
	err := e.waitUntil(ctx, began.Add(2*detachPatience), fmt.Sprintf("Waiting until volumes are detached from Node %s.", op.Node.Name), func(ctx context.Context) (string, error) {
		node, err := e.readNode(ctx, op.Node.Name)
		if err != nil {
			return "", err
		}
		if left = attached(node, op, removes); left != "" && e.clock.Now().Sub(began) >= detachPatience {
			return "", errVolumesAttached
		}
		return left, nil
	})
	if errors.Is(err, errVolumesAttached) {
		return fmt.Sprintf(" %s, and were not waited for any longer: pods that need them elsewhere may wait for some minutes.", left), nil
	}
	return "", err
}

// attached says which volumes of a Node are in use. Empty: none, or nobody speaks for the Node who could unmount them.
func attached(node *corev1.Node, op *v1alpha1.Operation, removes bool) string {
	if node == nil || node.UID != op.Node.UID || isDead(node) {
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
