// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAddresses(t *testing.T) {
	internal := func(address string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}
	}
	external, name := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "11.22.33.44"}, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "win-1"}
	for what, tt := range map[string]struct {
		addresses []corev1.NodeAddress
		ipv4      string
		ofNode    string
	}{
		"none":               {},
		"the first":          {[]corev1.NodeAddress{internal("169.254.1.1"), internal("10.0.0.6"), name}, "169.254.1.1", "169.254.1.1"},
		"that of IPv4":       {[]corev1.NodeAddress{internal("fd00::5"), internal("10.0.0.6")}, "10.0.0.6", "10.0.0.6"},
		"not external":       {[]corev1.NodeAddress{external, internal("10.0.0.6")}, "10.0.0.6", "10.0.0.6"},
		"a name":             {[]corev1.NodeAddress{internal("fd00::5"), name}, "", "win-1"},
		"a name before it":   {[]corev1.NodeAddress{name, internal("10.0.0.6")}, "10.0.0.6", "win-1"},
		"IPv4 within IPv6":   {[]corev1.NodeAddress{internal("::ffff:10.0.0.6")}, "", "::ffff:10.0.0.6"},
		"none of any use":    {[]corev1.NodeAddress{external, internal("fd00::5"), internal("nonsense")}, "", ""},
		"the name of a host": {[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "win-1"}}, "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			if ipv4, ofNode := InternalIPv4(tt.addresses), NodeAddress(tt.addresses); ipv4 != tt.ipv4 || ofNode != tt.ofNode {
				t.Errorf("got %q and %q, want %q and %q", ipv4, ofNode, tt.ipv4, tt.ofNode)
			}
		})
	}
}
