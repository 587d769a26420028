// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "testing"

// TestProviderIDs: where a provider ignores case one machine has several spellings, and everywhere else two spellings are two machines.
func TestProviderIDs(t *testing.T) {
	t.Parallel()
	const (
		vm  = "azure:///subscriptions/0A1B/resourceGroups/Cluster-RG/providers/Microsoft.Compute/virtualMachines/winworker-1"
		set = "azure:///subscriptions/0A1B/resourceGroups/Cluster-RG/providers/Microsoft.Compute/virtualMachineScaleSets/win/virtualMachines/"
	)
	for _, tt := range []struct {
		name, a, b  string
		same, other bool
	}{
		{"one", "aws:///eu-1a/i-1", "aws:///eu-1a/i-1", true, false},
		{"two", "aws:///eu-1a/i-1", "aws:///eu-1a/i-2", false, true},
		{"two in their case", "gce://p/zone/Win-1", "gce://p/zone/win-1", false, true},
		{"of no known provider", "foo", "FOO", false, true},
		{"the resource group of Azure", vm, "azure:///subscriptions/0A1B/resourceGroups/cluster-rg/providers/Microsoft.Compute/virtualMachines/winworker-1", true, false},
		{"all of Azure", vm, "azure:///subscriptions/0a1b/resourcegroups/cluster-rg/providers/microsoft.compute/virtualmachines/winworker-1", true, false},
		{"two of Azure", vm, "azure:///subscriptions/0a1b/resourceGroups/cluster-rg/providers/Microsoft.Compute/virtualMachines/winworker-10", false, true},
		{"one of another resource group", vm, "azure:///subscriptions/0A1B/resourceGroups/Other-RG/providers/Microsoft.Compute/virtualMachines/winworker-1", false, true},
		{"two of a scale set", set + "1", set + "2", false, true},
		{"the UUID of vSphere", "vsphere://4228E784-3F9E-998E-311B-29A25AD112D3", "vsphere://4228e784-3f9e-998e-311b-29a25ad112d3", true, false},
		{"two of vSphere", "vsphere://4228e784-3f9e-998e-311b-29a25ad112d3", "vsphere://4228e784-3f9e-998e-311b-29a25ad112d4", false, true},
		{"of two providers", "vsphere://a", "azure://a", false, true},
		{"none", "", "", false, false},
		{"one and none", "aws:///eu-1a/i-1", "", false, false},
		{"vSphere without a UUID", "vsphere://", "vsphere://", false, false},
		{"vSphere with and without one", "vsphere://4228e784-3f9e-998e-311b-29a25ad112d3", "vsphere://", false, false},
		{"AWS without an instance", "aws:///eu-1a/", "aws:///eu-1a/", false, false},
		{"Azure without a virtual machine", set, set, false, false},
	} {
		for _, ids := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if same, other := SameProviderID(ids[0], ids[1]), OtherProviderID(ids[0], ids[1]); same != tt.same || other != tt.other {
				t.Errorf("%s: %q and %q: the same %v, others %v", tt.name, ids[0], ids[1], same, other)
			}
		}
	}
}
