// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// BastionWith is the bastion through which the host of an instance is reached: its own, else that of its pool, which is nil
// where the instance has none. Nil: the host is connected to directly.
func (i *WindowsInstance) BastionWith(pool *WindowsNodePool) *Bastion {
	if i.Spec.Bastion != nil || pool == nil {
		return i.Spec.Bastion
	}
	return pool.Spec.Template.Bastion
}

// Endpoint is where the bastion is contacted, as address:port in one spelling: IPv6 has many, and DNS ignores case and a final
// dot. That of no bastion is empty. Hosts behind two bastions are two networks apart, whatever their addresses.
func (b *Bastion) Endpoint() string {
	if b == nil {
		return ""
	}
	address := strings.TrimSuffix(strings.ToLower(b.Address), ".")
	if ip, err := netip.ParseAddr(b.Address); err == nil {
		address = ip.Unmap().String()
	}
	return net.JoinHostPort(address, strconv.Itoa(int(cmp.Or(b.Port, DefaultPort))))
}

// ProvenAt are the IP addresses at which the host was found by a connection of our own. Through a bastion none is proven: who
// has the bastion decides where an address leads.
func (s *WindowsInstanceStatus) ProvenAt() []string {
	if s.Bastion != "" {
		return nil
	}
	return s.FoundAt()
}
