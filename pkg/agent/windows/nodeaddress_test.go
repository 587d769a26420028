// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestNodeAddress: the address of the node is the one that the instance is known by, where the
// host has it.
func TestNodeAddress(t *testing.T) {
	adapters := []api.Interface{
		{Index: 7, Addresses: []string{"fe80::1/64", "10.1.0.7/24"}},
		{Index: 3, Addresses: []string{"169.254.1.1/16", "10.0.0.100/24", "10.0.0.7/24", "fd00::7/64"}},
		{Index: 9, Addresses: []string{"fe80::9/64", "fd00::9/64"}},
	}
	tests := []struct {
		name      string
		adapter   int
		unusable  []string
		preferred []string
		want      string
	}{
		{name: "first of the adapter with the default route", adapter: 3, want: "10.0.0.100"},
		{name: "an address of a cluster comes first", adapter: 3, unusable: []string{"10.0.0.100"}, want: "10.0.0.7"},
		{name: "known by its second address", adapter: 3, preferred: []string{"10.0.0.7"}, want: "10.0.0.7"},
		{name: "known by another adapter", adapter: 3, preferred: []string{"10.1.0.7"}, want: "10.1.0.7"},
		{name: "known by both", adapter: 3, preferred: []string{"10.0.0.7", "10.1.0.7"}, want: "10.0.0.7"},
		{name: "known by an address that it has no more", adapter: 7, preferred: []string{"10.9.9.9"}, want: "10.1.0.7"},
		{name: "known by an address that goes from host to host", adapter: 3, unusable: []string{"10.0.0.100"}, preferred: []string{"10.0.0.100"}, want: "10.0.0.7"},
		{name: "no default route", adapter: 1},
		{name: "the adapter with the default route has IPv6 only", adapter: 9},
		{name: "known by an address of IPv6", adapter: 9, preferred: []string{"fd00::9"}},
		{name: "known by both families", adapter: 9, preferred: []string{"fd00::9", "10.1.0.7"}, want: "10.1.0.7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			unusable := map[string]bool{}
			for _, a := range tt.unusable {
				unusable[a] = true
			}
			if got := nodeAddress(adapters, tt.adapter, unusable, tt.preferred); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
