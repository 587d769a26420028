// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "strings"

// schemesWithoutCase begin the IDs of providers that ignore case in all of them. In those of Azure programs spell resource groups and subscriptions
// differently: the cloud provider writes the former in lower case (ConvertResourceGroupNameToLower of cloud-provider-azure), the Machine API as they were created. The
// UUIDs of vSphere are hexadecimal.
var schemesWithoutCase = []string{"azure://", "vsphere://"}

// CanonicalProviderID gives the ID of a machine at its provider, as in spec.providerID of instances and of Nodes, one spelling. Empty: it names no
// machine, as "vsphere://" does, which the cloud provider of vSphere has written for machines whose UUID it did not know yet.
//
// It makes no two machines one: whoever may write the ID of a machine in one spelling may also write it in another. And it proves nothing, as
// whoever has the account of a host may write any ID into its Node, see package identity.
func CanonicalProviderID(id string) string {
	if strings.HasSuffix(id, "/") {
		return ""
	}
	lower := strings.ToLower(id)
	for _, scheme := range schemesWithoutCase {
		if strings.HasPrefix(lower, scheme) {
			return lower
		}
	}
	return id
}

// SameProviderID says whether two IDs of providers name one machine. One that names none is that of no machine.
func SameProviderID(a, b string) bool {
	a = CanonicalProviderID(a)
	return a != "" && a == CanonicalProviderID(b)
}

// OtherProviderID says whether two IDs of providers name two machines.
func OtherProviderID(a, b string) bool {
	a, b = CanonicalProviderID(a), CanonicalProviderID(b)
	return a != "" && b != "" && a != b
}
