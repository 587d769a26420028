// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func TestPlanRoute(t *testing.T) {
	entry := func(destination, gateway string, index int, metric uint32) routeEntry {
		return routeEntry{netip.MustParsePrefix(destination), netip.MustParseAddr(gateway), index, metric}
	}
	table := []routeEntry{
		entry("10.0.0.0/24", "0.0.0.0", 4, 256),
		entry("0.0.0.0/0", "10.0.9.1", 9, 500),
		entry("0.0.0.0/0", "10.0.0.1", 4, 25),
		entry("::/0", "fe80::1", 7, 1),
		entry("169.254.169.250/32", "10.0.0.1", 4, 25),
		entry("169.254.169.251/32", "10.0.9.1", 9, 500),
	}
	for _, tt := range []struct {
		name    string
		route   api.Route
		want    string // gateway and adapter
		present bool
		others  []int
		err     string
	}{
		{name: "by the best default route", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32")}, want: "10.0.0.1 4"},
		{name: "there already", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.250/32")}, want: "10.0.0.1 4", present: true},
		{name: "another way", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.251/32")}, want: "10.0.0.1 4", others: []int{5}},
		{name: "by a certain adapter", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32"), Interface: 9}, want: "10.0.9.1 9"},
		{name: "by a certain gateway", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32"), Gateway: netip.MustParseAddr("10.0.0.7")}, want: "10.0.0.7 4"},
		{name: "on the link", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32"), Gateway: netip.MustParseAddr("0.0.0.0"), Interface: 4}, want: "0.0.0.0 4"},
		{name: "IPv6", route: api.Route{Destination: netip.MustParsePrefix("fd00:ec2::254/128")}, want: "fe80::1 7"},
		{name: "an adapter without a default route", route: api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32"), Interface: 5}, err: "adapter 5 has no default route"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wanted, others, err := planRoute(table, tt.route)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if got := wanted.gateway.String() + " " + string(rune('0'+wanted.index)); got != want || wanted.present != tt.present || wanted.destination != tt.route.Destination {
				t.Errorf("got %s present %t, want %s present %t", got, wanted.present, want, tt.present)
			}
			if !slices.Equal(others, tt.others) {
				t.Errorf("got others %v, want %v", others, tt.others)
			}
		})
	}
	if _, _, err := planRoute(nil, api.Route{Destination: netip.MustParsePrefix("169.254.169.254/32")}); err == nil {
		t.Error("a host without a default route is no error")
	}
}
