// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// InternalIPv4 returns the first internal address of IPv4, whatever it is good for: WMCO reaches the host of a Machine at that, and finds the Node
// of an entry of its ConfigMap by it. Empty: there is none.
func InternalIPv4(addresses []corev1.NodeAddress) string {
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// NodeAddress returns the address by which WMCO goes to the host of a Node: its first internal one that is not of IPv6, or internal
// name, whichever comes first. Empty: there is none.
func NodeAddress(addresses []corev1.NodeAddress) string {
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.Address)
		if a.Type == corev1.NodeInternalIP && err == nil && ip.Unmap().Is4() || a.Type == corev1.NodeInternalDNS {
			return a.Address
		}
	}
	return ""
}
