// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

var (
	procInitializeIPForwardEntry = iphlpapi.NewProc("InitializeIpForwardEntry")
	procCreateIPForwardEntry2    = iphlpapi.NewProc("CreateIpForwardEntry2")
	procDeleteIPForwardEntry2    = iphlpapi.NewProc("DeleteIpForwardEntry2")
)

// EnsureRoute creates a route with the metric of the adapter alone. It replaces others
// to the same destination, which could take its packets.
func (h *Host) EnsureRoute(_ context.Context, r api.Route) (bool, error) {
	table, entries, err := routeEntries(r.Destination.Addr())
	if err != nil {
		return false, err
	}
	wanted, others, err := planRoute(entries, r)
	if err != nil {
		return false, err
	}
	if !wanted.present {
		if err := createRoute(wanted.routeEntry); err != nil {
			return false, err
		}
	}
	for _, i := range others {
		if err := deleteRoute(table[i]); err != nil {
			return true, err
		}
	}
	return !wanted.present || len(others) > 0, nil
}

// routeEntries returns the rows of the routing table, and their meaning.
func routeEntries(version netip.Addr) ([]windows.MibIpForwardRow2, []routeEntry, error) {
	table, err := routeTable(version)
	if err != nil {
		return nil, nil, err
	}
	metrics, err := adapterMetrics(version)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]routeEntry, len(table))
	for i, row := range table {
		entries[i] = entryOf(row)
		entries[i].metric += metrics[entries[i].index]
	}
	return table, entries, nil
}

// adapterMetrics are the metrics of the adapters by their indexes. Windows adds them to
// those of the routes.
func adapterMetrics(version netip.Addr) (map[int]uint32, error) {
	first, err := adapters()
	if err != nil {
		return nil, err
	}
	metrics := map[int]uint32{}
	for a := first; a != nil; a = a.Next {
		if version.Is4() {
			metrics[int(a.IfIndex)] = a.Ipv4Metric
		} else {
			metrics[int(a.Ipv6IfIndex)] = a.Ipv6Metric
		}
	}
	return metrics, nil
}

// routeTable lists the routes of the IP version of an address.
func routeTable(version netip.Addr) ([]windows.MibIpForwardRow2, error) {
	family := uint16(windows.AF_INET6)
	if version.Is4() {
		family = windows.AF_INET
	}
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(family, &table); err != nil {
		return nil, fmt.Errorf("listing the routes: %w", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	return slices.Clone(table.Rows()), nil
}

func entryOf(row windows.MibIpForwardRow2) routeEntry {
	return routeEntry{
		destination: netip.PrefixFrom(inetAddr(&row.DestinationPrefix.Prefix), int(row.DestinationPrefix.PrefixLength)),
		gateway:     inetAddr(&row.NextHop),
		index:       int(row.InterfaceIndex),
		metric:      row.Metric,
	}
}

// inetAddr reads a SOCKADDR_INET.
func inetAddr(sa *windows.RawSockaddrInet) netip.Addr {
	switch sa.Family {
	case windows.AF_INET:
		return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(sa)).Addr)
	case windows.AF_INET6:
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(sa)).Addr)
	}
	return netip.Addr{}
}

// setInet writes one.
func setInet(sa *windows.RawSockaddrInet, addr netip.Addr) {
	if addr.Is4() {
		*(*windows.RawSockaddrInet4)(unsafe.Pointer(sa)) = windows.RawSockaddrInet4{Family: windows.AF_INET, Addr: addr.As4()}
		return
	}
	*(*windows.RawSockaddrInet6)(unsafe.Pointer(sa)) = windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: addr.As16()}
}

func createRoute(e routeEntry) error {
	for _, p := range []*windows.LazyProc{procInitializeIPForwardEntry, procCreateIPForwardEntry2} {
		if err := p.Find(); err != nil {
			return err
		}
	}
	var row windows.MibIpForwardRow2
	// It returns nothing; it sets the lifetimes to infinite and more.
	_, _, _ = procInitializeIPForwardEntry.Call(uintptr(unsafe.Pointer(&row)))
	row.InterfaceIndex = uint32(e.index)
	setInet(&row.DestinationPrefix.Prefix, e.destination.Addr())
	row.DestinationPrefix.PrefixLength = uint8(e.destination.Bits())
	setInet(&row.NextHop, e.gateway)
	row.Metric = 0
	row.Protocol = windows.MIB_IPPROTO_NETMGMT
	code, _, _ := procCreateIPForwardEntry2.Call(uintptr(unsafe.Pointer(&row)))
	if err := windows.Errno(code); err != windows.ERROR_SUCCESS && !errors.Is(err, windows.ERROR_OBJECT_ALREADY_EXISTS) {
		return fmt.Errorf("creating the route: %w", err)
	}
	return nil
}

func deleteRoute(row windows.MibIpForwardRow2) error {
	if err := procDeleteIPForwardEntry2.Find(); err != nil {
		return err
	}
	code, _, _ := procDeleteIPForwardEntry2.Call(uintptr(unsafe.Pointer(&row)))
	if err := windows.Errno(code); err != windows.ERROR_SUCCESS && !errors.Is(err, windows.ERROR_NOT_FOUND) {
		return fmt.Errorf("removing a route that is in the way: %w", err)
	}
	return nil
}
