// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"net/netip"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// AddressForWMCO returns the address at which the Windows Machine Config Operator reaches the host of a Machine. Empty: it has none, or is not there.
func AddressForWMCO(ctx context.Context, reader client.Reader, machine types.NamespacedName) (string, error) {
	found, err := object.Get(ctx, reader, machine, &machinev1beta1.Machine{})
	if err != nil || found == nil {
		return "", err
	}
	return wmco.InternalIPv4(found.Status.Addresses), nil
}

// Address returns the address to reach the host of a Machine at: an internal IPv4 address, else
// an internal IPv6 address, else its internal DNS name, else its host name. Empty: it has none yet.
//
// Of several ones of a kind it is the current one, if that is among them, else the first. Hosts get more when they become nodes, those
// of the networks of their pods, and clouds list them in any order; an instance that followed that would move to another
// address and back.
//
// Addresses that mean something on one link only are passed over: a host that got
// none from DHCP calls itself 169.254.x.y, and every host has one in fe80::/10.
func Address(addresses []corev1.NodeAddress, current string) string {
	var ipv4, ipv6, dns, hostname []string
	for _, address := range addresses {
		switch address.Type {
		case corev1.NodeInternalIP:
			addr, _ := netip.ParseAddr(address.Address) // what is none is of no kind
			switch {
			case addr.IsLinkLocalUnicast(), addr.IsMulticast(), addr.IsUnspecified():
			case addr.Is4() || addr.Is4In6():
				ipv4 = append(ipv4, addr.Unmap().String())
			case addr.IsGlobalUnicast():
				ipv6 = append(ipv6, addr.String())
			}
		case corev1.NodeInternalDNS:
			dns = append(dns, address.Address)
		case corev1.NodeHostName:
			hostname = append(hostname, address.Address)
		}
	}
	for _, kind := range [][]string{ipv4, ipv6, dns, hostname} {
		kind = slices.DeleteFunc(kind, func(a string) bool { return a == "" })
		switch {
		case slices.Contains(kind, current):
			return current
		case len(kind) > 0:
			return kind[0]
		}
	}
	return ""
}
