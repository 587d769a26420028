// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// unfindable is the finding that the Node of a host would not be found: the kubelet of Windows reports an address of IPv4, and the host
// is known by none. Others than its kubelet have to say it: [Host.Node] and requests for serving certificates are compared with
// it. Nil: there is one, the provider says whose the Node is, the Node is known already, or no address is known.
func unfindable(h Host) []Finding {
	addresses := h.Instance.Status.Addresses
	if h.Node != nil || v1alpha1.CanonicalProviderID(h.Instance.Spec.ProviderID) != "" || len(addresses) == 0 {
		return nil
	}
	for _, text := range addresses {
		if address, err := netip.ParseAddr(text); err != nil || address.Unmap().Is4() {
			return nil
		}
	}
	return []Finding{{
		Problem: fmt.Sprintf("the host is known by addresses of IPv6 only (%s), and the Nodes of Windows hosts have addresses of IPv4, by which they are found", strings.Join(addresses, ", ")),
		Remedy:  "set spec.address, or the key of the entry in the ConfigMap windows-instances, to the IPv4 address of the host, or to a DNS name that has it, too",
	}}
}
