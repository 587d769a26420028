// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// Node is what a kubelet registers.
type Node struct {
	Name string
	// Address is the internal IP address.
	Address string
	// Labels come besides kubernetes.io/hostname.
	Labels map[string]string
	// Info is what the Node says about its host, besides that it runs Windows.
	Info corev1.NodeSystemInfo
}

// Register creates a Node, as a kubelet does when it is first started. It is not ready.
func Register(ctx context.Context, client kubernetes.Interface, n Node) error {
	labels := map[string]string{corev1.LabelHostname: n.Name}
	maps.Copy(labels, n.Labels)
	n.Info.OperatingSystem = "windows"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels}, Status: corev1.NodeStatus{NodeInfo: n.Info}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Node %s: %w", n.Name, err)
	}
	body, err := mergePatch(&corev1.Node{}, &corev1.Node{Status: corev1.NodeStatus{
		NodeInfo:  n.Info,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.Address}, {Type: corev1.NodeHostName, Address: n.Name}},
	}})
	if err != nil {
		return err
	}
	// A patch does not mind that kube-controller-manager looks after the Node already.
	if _, err = client.CoreV1().Nodes().PatchStatus(ctx, n.Name, body); err != nil {
		return fmt.Errorf("describing Node %s: %w", n.Name, err)
	}
	return nil
}

// mergePatch is a strategic merge patch that makes one object of the other.
func mergePatch[T any](from, to *T) ([]byte, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, from)
}
