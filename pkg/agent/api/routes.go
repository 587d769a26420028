// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"net/netip"
)

// Route says where packets to a destination are sent.
type Route struct {
	// Destination is a range of addresses, a host having the whole length as prefix.
	// It must not be a default route.
	Destination netip.Prefix `json:"destination"`
	// Gateway takes the packets. The zero value: the gateway of the default route.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Interface is the index of the adapter. 0: that of the default route.
	Interface int `json:"interface,omitempty"`
}

// RoutesRequest requests that routes exist.
type RoutesRequest struct {
	Ensure []Route `json:"ensure"`
}

// RoutesAnswer is the answer to a [RoutesRequest].
type RoutesAnswer struct {
	// Changed are the routes that had to be made or changed, as the request has them.
	Changed []Route `json:"changed,omitempty"`
}
