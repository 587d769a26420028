// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"net/netip"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// nodeAddress returns the IPv4 address of the node: of the addresses that can be used, a preferred
// one, on the adapter with the default route if there are several, and else the first of that
// adapter. Empty: there is none.
func nodeAddress(adapters []api.Interface, adapter int, unusable map[string]bool, preferred []string) string {
	best, rank := "", 0
	for _, i := range adapters {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil || !prefix.Addr().Is4() || prefix.Addr().IsLinkLocalUnicast() || unusable[prefix.Addr().String()] {
				continue
			}
			here := 0
			if i.Index == adapter {
				here++
			}
			if slices.Contains(preferred, prefix.Addr().String()) {
				here += 2
			}
			if here > rank {
				best, rank = prefix.Addr().String(), here
			}
		}
	}
	return best
}
