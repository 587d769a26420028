// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"net/netip"
	"slices"
	"strings"
)

// awsScheme begins the provider IDs of AWS.
const awsScheme = "aws://"

// metadataRoutes are the services that AWS gives instances on addresses of their own, in
// the set that EC2Launch makes routes for when it is run with add-routes, which the Windows
// Machine Config Operator has done on each first start.
var metadataRoutes = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"), // metadata
	netip.MustParsePrefix("169.254.169.253/32"), // DNS
	netip.MustParsePrefix("169.254.169.251/32"), // activation of Windows (KMS)
	netip.MustParsePrefix("169.254.169.250/32"), // activation of Windows (KMS)
	netip.MustParsePrefix("169.254.169.249/32"),
	netip.MustParsePrefix("169.254.169.123/32"), // time
}

// MetadataRoutes are the destinations that a machine with that ID at its provider needs routes to,
// nil if it needs none. Windows containers on AWS lose them with a restart: HNS moves the address of
// the host to a virtual adapter, to which the routes that EC2Launch had made do not follow.
func MetadataRoutes(providerID string) []netip.Prefix {
	if !strings.HasPrefix(providerID, awsScheme) {
		return nil
	}
	return slices.Clone(metadataRoutes)
}
