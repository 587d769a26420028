// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostaccess

import (
	"fmt"
	"net/netip"
)

// AddressPolicy returns the rule on which addresses may be dialed. Refused are
// loopback, link-local (which holds the metadata services of clouds), multicast
// and unspecified addresses: whoever sets the address of an instance makes our key
// log in there, and none of them is ever a Windows host. allowed opens ranges on purpose.
func AddressPolicy(allowed []netip.Prefix) func(netip.Addr) error {
	return func(addr netip.Addr) error {
		addr = addr.Unmap()
		for _, prefix := range allowed {
			if prefix.Contains(addr) {
				return nil
			}
		}
		var kind string
		switch {
		case addr.IsLoopback():
			kind = "a loopback"
		case addr.IsLinkLocalUnicast():
			kind = "a link-local"
		case addr.IsMulticast():
			kind = "a multicast"
		case addr.IsUnspecified():
			kind = "the unspecified"
		default:
			return nil
		}
		return fmt.Errorf("%s is %s address, where no Windows host is dialed; --allowed-host-cidrs opens a range on purpose", addr, kind)
	}
}
