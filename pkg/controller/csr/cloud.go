// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// explainCloud adds to a refusal where its name or address may come from: a kubelet with an external cloud provider asks
// to serve under all that the cloud controller manager has written into its Node. That is no proof, because the kubelet
// may write it, too, and so may whoever has its host.
func (r *Reconciler) explainCloud(ctx context.Context, request string, d *policy.Decision) error {
	if d.Unknown == "" {
		return nil
	}
	node, err := object.Get(ctx, r.client, client.ObjectKey{Name: d.NodeName}, &corev1.Node{})
	if err != nil || node == nil {
		return err
	}
	if kind := cloudAddress(node, d.Unknown); kind != "" {
		d.Message += fmt.Sprintf(": its Node has it as %s, which proves nothing, because its kubelet can write that. Where the host has a Machine, that must have it, too. "+
			"Otherwise find out whether the host has it, and approve the request (kubectl certificate approve %s) or, in the namespace of the operator, "+
			"set spec.address to a DNS name that has all addresses of the host", kind, request)
	}
	return nil
}

// cloudAddress returns as what a Node has a name or address that only a cloud gives. Empty: it has no such one.
func cloudAddress(node *corev1.Node, value string) corev1.NodeAddressType {
	for _, a := range node.Status.Addresses {
		switch a.Type {
		case corev1.NodeExternalIP, corev1.NodeExternalDNS, corev1.NodeInternalDNS:
			if strings.EqualFold(identity.CanonicalAddress(a.Address), identity.CanonicalAddress(value)) {
				return a.Type
			}
		case corev1.NodeInternalIP, corev1.NodeHostName:
		}
	}
	return ""
}
