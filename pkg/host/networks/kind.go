// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package networks

import (
	"net/netip"
	"slices"
)

// What an address is that no host has, as a sentence of [host.AddressRules] goes on.
const (
	kindService   = "a Service's"
	kindAPIServer = "the API server's"
	kindPod       = "a pod's"
	kindNode      = "a Linux Node's"
)

// kindOf says what an address is by what all objects say; empty: a host may have it. A Windows
// Node is a host wherever it is: where pods have addresses of the network of the Nodes, it is in
// theirs. But a kubelet reports what it likes, so that opens neither Services nor the API server,
// and of two Nodes that report an address the one that was there first has it.
func kindOf(address netip.Addr, all []*facts) string {
	in := func(networks func(*facts) []netip.Prefix) bool {
		return slices.ContainsFunc(all, func(f *facts) bool {
			return slices.ContainsFunc(networks(f), func(p netip.Prefix) bool { return p.Contains(address) })
		})
	}
	var owner *facts
	for _, f := range all {
		reports := slices.Contains(f.windows, address) || slices.Contains(f.nodes, address)
		if reports && (owner == nil || f.CreationTimestamp.Before(&owner.CreationTimestamp)) {
			owner = f
		}
	}
	switch {
	case slices.ContainsFunc(all, func(f *facts) bool { return slices.Contains(f.apiServers, address) }):
		return kindAPIServer
	case in(func(f *facts) []netip.Prefix { return f.services }):
		return kindService
	case owner != nil && slices.Contains(owner.windows, address):
		return ""
	case owner != nil:
		return kindNode
	case in(func(f *facts) []netip.Prefix { return f.pods }):
		return kindPod
	}
	return ""
}
