// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

var (
	iphlpapi                = windows.NewLazySystemDLL("iphlpapi.dll")
	procGetExtendedTCPTable = iphlpapi.NewProc("GetExtendedTcpTable")
)

// adapterDHCPv4 is IP_ADAPTER_DHCP_ENABLED of iptypes.h.
const adapterDHCPv4 = 0x4

func interfaces() ([]api.Interface, error) {
	first, err := adapters()
	if err != nil {
		return nil, err
	}
	var list []api.Interface
	for a := first; a != nil; a = a.Next {
		dhcp := a.Flags&adapterDHCPv4 != 0
		n := api.Interface{
			Name: windows.UTF16PtrToString(a.FriendlyName), Index: int(a.IfIndex),
			Up: a.OperStatus == windows.IfOperStatusUp, Loopback: a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK,
			DHCP: &dhcp,
		}
		if a.IfIndex == 0 {
			n.Index = int(a.Ipv6IfIndex)
		}
		if a.Mtu != 0xffffffff {
			n.MTU = int(a.Mtu)
		}
		if l := a.PhysicalAddressLength; l > 0 && int(l) <= len(a.PhysicalAddress) {
			n.MAC = net.HardwareAddr(a.PhysicalAddress[:l]).String()
		}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if ip := u.Address.IP(); ip != nil {
				bits := 8 * net.IPv6len
				if ip.To4() != nil {
					bits = 8 * net.IPv4len
				}
				cidr := net.IPNet{IP: ip, Mask: net.CIDRMask(int(u.OnLinkPrefixLength), bits)}
				n.Addresses = append(n.Addresses, cidr.String())
			}
		}
		for g := a.FirstGatewayAddress; g != nil; g = g.Next {
			if ip := g.Address.IP(); ip != nil {
				n.Gateways = append(n.Gateways, ip.String())
			}
		}
		for d := a.FirstDnsServerAddress; d != nil; d = d.Next {
			if ip := d.Address.IP(); ip != nil {
				n.DNSServers = append(n.DNSServers, ip.String())
			}
		}
		list = append(list, n)
	}
	return list, nil
}

// adapters returns the first adapter of a list.
func adapters() (*windows.IpAdapterAddresses, error) {
	const flags = windows.GAA_FLAG_INCLUDE_GATEWAYS | windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST
	first, err := grow(tableBytes, windows.ERROR_BUFFER_OVERFLOW, func(first *windows.IpAdapterAddresses, size *uint32) error {
		return windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0, first, size)
	})
	if err != nil {
		return nil, fmt.Errorf("listing the adapters: %w", err)
	}
	return first, nil
}

// listeners reads the tables of listening sockets with their owners:
// MIB_TCPTABLE_OWNER_PID and MIB_TCP6TABLE_OWNER_PID of tcpmib.h.
func listeners() ([]api.Listener, error) {
	type row4 struct {
		state, localAddr, localPort, remoteAddr, remotePort, pid uint32
	}
	type row6 struct {
		localAddr                                 [16]byte
		localScope, localPort                     uint32
		remoteAddr                                [16]byte
		remoteScope, remotePort, state, processID uint32
	}
	var list []api.Listener
	add := func(ip net.IP, port, pid uint32) {
		// Network byte order in the lower half.
		p := int(port&0xff)<<8 | int(port>>8&0xff)
		if slices.Contains(agent.PortsOfInterest(), p) {
			list = append(list, api.Listener{Port: p, Address: ip.String(), PID: pid})
		}
	}
	rows4, err := tcpTable[row4](windows.AF_INET)
	if err != nil {
		return nil, err
	}
	for _, r := range rows4 {
		add(net.IPv4(byte(r.localAddr), byte(r.localAddr>>8), byte(r.localAddr>>16), byte(r.localAddr>>24)), r.localPort, r.pid)
	}
	rows6, err := tcpTable[row6](windows.AF_INET6)
	for _, r := range rows6 {
		add(slices.Clone(r.localAddr[:]), r.localPort, r.processID)
	}
	return list, err
}

// tcpTable reads a table: a count and as many rows after it.
func tcpTable[T any](family uintptr) ([]T, error) {
	if err := procGetExtendedTCPTable.Find(); err != nil {
		return nil, err
	}
	// TCP_TABLE_OWNER_PID_LISTENER of iprtrmib.h.
	const ownerPIDListener = 3
	type table struct {
		count uint32
		first T
	}
	room := 0
	t, err := grow(tableBytes, windows.ERROR_INSUFFICIENT_BUFFER, func(t *table, size *uint32) error {
		room = (int(*size) - int(unsafe.Offsetof(t.first))) / int(unsafe.Sizeof(t.first))
		r, _, _ := procGetExtendedTCPTable.Call(uintptr(unsafe.Pointer(t)), uintptr(unsafe.Pointer(size)), 0, family, ownerPIDListener, 0)
		if r != 0 {
			return windows.Errno(r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the listeners: %w", err)
	}
	return unsafe.Slice(&t.first, min(int(t.count), room)), nil
}
