// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// routeEntry is one line of a routing table.
type routeEntry struct {
	destination netip.Prefix
	// gateway is unspecified for addresses on the link.
	gateway netip.Addr
	index   int
	// metric is that of the route and of the adapter together: less is better.
	metric uint32
}

// wantedRoute is the line that must exist, and whether it does.
type wantedRoute struct {
	routeEntry
	present bool
}

// planRoute returns the line of a route on a host with the given table, and which lines of the
// table conflict with it: those with the same destination and another gateway or adapter.
func planRoute(table []routeEntry, r api.Route) (wanted wantedRoute, others []int, err error) {
	wanted.routeEntry = routeEntry{destination: r.Destination, gateway: r.Gateway, index: r.Interface}
	if !wanted.gateway.IsValid() || wanted.index == 0 {
		byDefault, err := defaultRoute(table, r)
		if err != nil {
			return wanted, nil, err
		}
		if wanted.index == 0 {
			wanted.index = byDefault.index
		}
		if !wanted.gateway.IsValid() {
			wanted.gateway = byDefault.gateway
		}
	}
	for i, e := range table {
		switch {
		case e.destination != wanted.destination:
		case e.gateway == wanted.gateway && e.index == wanted.index:
			wanted.present = true
		default:
			others = append(others, i)
		}
	}
	return wanted, others, nil
}

// defaultRoute returns the default route with the lowest metric, on the adapter of the route if
// it names one. It also finds that of a virtual switch, which has the adapter's address once
// there are networks for pods.
func defaultRoute(table []routeEntry, r api.Route) (routeEntry, error) {
	var best *routeEntry
	for i, e := range table {
		if e.destination.Bits() != 0 || e.destination.Addr().Is4() != r.Destination.Addr().Is4() || r.Interface != 0 && e.index != r.Interface {
			continue
		}
		if best == nil || e.metric < best.metric {
			best = &table[i]
		}
	}
	switch {
	case best != nil:
		return *best, nil
	case r.Interface != 0:
		return routeEntry{}, fmt.Errorf("adapter %d has no default route", r.Interface)
	}
	return routeEntry{}, errors.New("the host has no default route")
}
