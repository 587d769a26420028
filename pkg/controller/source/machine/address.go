// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Address returns the address to reach the host of a Machine at: the first internal
// IPv4 address, else the first internal IPv6 address, else its internal DNS name,
// else its host name. Empty: it has none yet.
//
// Addresses that mean something on one link only are passed over: a host that got
// none from DHCP calls itself 169.254.x.y, and every host has one in fe80::/10.
func Address(addresses []corev1.NodeAddress) string {
	var ipv4, ipv6, dns, hostname string
	for _, address := range addresses {
		switch address.Type {
		case corev1.NodeInternalIP:
			addr, _ := netip.ParseAddr(address.Address) // what is none is of no kind
			switch {
			case addr.IsLinkLocalUnicast(), addr.IsMulticast(), addr.IsUnspecified():
			case addr.Is4() || addr.Is4In6():
				ipv4 = cmp.Or(ipv4, addr.Unmap().String())
			case addr.IsGlobalUnicast():
				ipv6 = cmp.Or(ipv6, addr.String())
			}
		case corev1.NodeInternalDNS:
			dns = cmp.Or(dns, address.Address)
		case corev1.NodeHostName:
			hostname = cmp.Or(hostname, address.Address)
		}
	}
	return cmp.Or(ipv4, ipv6, dns, hostname)
}
