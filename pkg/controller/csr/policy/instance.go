// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package policy

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Instance is a host of ours, as far as requests for certificates need to know it.
//
// What is in here must be known from elsewhere than from the kubelet whose request it
// is compared with: a kubelet writes the addresses of its Node itself.
type Instance struct {
	// ID names the instance in messages, for example namespace/name.
	ID string
	// Names that the host has: see [HostNames]. The name of its Node is one of them.
	Names []string
	// Addresses that the host has: those it is reached at, and those that its
	// platform gave it. They are unmapped and have no zone, as in a certificate.
	Addresses []netip.Addr
	// Node is the name of the Node of the host. Empty: it has none yet.
	Node string
}

// HostNames returns the names that a host may call itself by when it is known by
// names: each of them in lower case without a dot at the end, and its first label.
// Addresses and what is no valid name are left out.
func HostNames(names ...string) []string {
	var hostNames []string
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		short, _, _ := strings.Cut(name, ".")
		for _, candidate := range []string{name, short} {
			if len(validation.IsDNS1123Subdomain(candidate)) == 0 && !slices.Contains(hostNames, candidate) {
				hostNames = append(hostNames, candidate)
			}
		}
	}
	return hostNames
}

// IsNamed says whether nodeName is the name of the Node of the instance, or can
// become it. A part of a name is not enough.
func (i *Instance) IsNamed(nodeName string) bool {
	if i.Node != "" {
		return nodeName == i.Node
	}
	return len(validation.IsDNS1123Subdomain(nodeName)) == 0 && slices.Contains(i.Names, nodeName)
}

// hasName says whether the host has the DNS name.
func (i *Instance) hasName(name string) bool {
	name = strings.ToLower(name)
	return i.Node != "" && name == i.Node || slices.Contains(i.Names, name)
}

// hasAddress says whether the host has the address.
func (i *Instance) hasAddress(address netip.Addr) bool {
	return slices.Contains(i.Addresses, address.Unmap())
}
