// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Indexes of the cache, which [Nodes.Find] needs. Their names are long as all controllers
// of a process share them.
const (
	// NodeIndex holds what identifies the machine of a Node, see [OfNode].
	NodeIndex = "instance-controller/node-identity"
	// InstanceIndex holds the same of an instance, see [OfInstance].
	InstanceIndex = "instance-controller/instance-identity"
)

// OfNode is what identifies the machine of a Node: its provider ID and its addresses.
func OfNode(node *corev1.Node) []string {
	var ids []string
	if node.Spec.ProviderID != "" {
		ids = append(ids, OfProvider(node.Spec.ProviderID))
	}
	for _, address := range node.Status.Addresses {
		ids = append(ids, addressIdentity(address.Address))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// OfInstance is the same of an instance, the strongest first.
func OfInstance(instance *v1alpha1.WindowsInstance) []string {
	var ids []string
	if instance.Spec.ProviderID != "" {
		ids = append(ids, OfProvider(instance.Spec.ProviderID))
	}
	for _, address := range append(slices.Clone(instance.Status.Addresses), instance.Spec.Address) {
		if id := addressIdentity(address); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// OfProvider identifies a machine by its ID at its provider.
func OfProvider(id string) string { return "provider/" + id }

func addressIdentity(address string) string { return "address/" + CanonicalAddress(address) }

// CanonicalAddress gives the same host one spelling: IPv6 has many, and DNS
// ignores case and a final dot.
func CanonicalAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(address), ".")
}
