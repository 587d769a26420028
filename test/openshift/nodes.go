// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subnetAnnotation of a Node has the network of its pods.
const subnetAnnotation = "k8s.ovn.org/hybrid-overlay-node-subnet"

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
