// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// subnetAnnotation of a Node has the network of its pods.
	subnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"
	// uninitializedTaint is put on its Node by a kubelet with --cloud-provider=external.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
)

// overlay stands in for the control plane of OVN-Kubernetes: it gives each Windows Node a part of the hybrid overlay,
// by an annotation. The real one then has the Linux nodes send there what is for its pods.
type overlay struct{ given int }

func (o *overlay) annotate(ctx context.Context, c client.Client, node *corev1.Node) error {
	if _, has := node.Annotations[subnetAnnotation]; has || node.Labels[corev1.LabelOSStable] != "windows" {
		return nil
	}
	before := client.MergeFrom(node.DeepCopy())
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, subnetAnnotation, fmt.Sprintf("10.%d.%d.0/23", 132+o.given/128, o.given%128*2)) // of operatorNetwork
	o.given++
	return c.Patch(ctx, node, before)
}

// initialize stands in for the cloud controller manager of a platform that has one: it takes the taint from a Node
// by which its kubelet says that nobody has completed it. The real one completes it, by the addresses, the zone and the
// provider ID of its machine, if it finds that by the name of the Node or what identifies its system; there are no machines here, so
// tests compare the names. On Azure each Node is completed from its own host.
func initialize(ctx context.Context, c client.Client, node *corev1.Node) error {
	infrastructure := &configv1.Infrastructure{}
	if err := c.Get(ctx, client.ObjectKey{Name: clusterName}, infrastructure); err != nil {
		return err
	}
	uninitialized := func(t corev1.Taint) bool { return t.Key == uninitializedTaint }
	of := platforms[infrastructure.Status.PlatformStatus.Type]
	if !of.externalCloud || of.nodeManager || !slices.ContainsFunc(node.Spec.Taints, uninitialized) {
		return nil
	}
	// A list is replaced as a whole: others write it, too.
	before := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, uninitialized)
	return c.Patch(ctx, node, before)
}
