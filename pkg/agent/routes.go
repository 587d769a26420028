// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// maxRoutes bounds a request; a cloud has a handful of services on addresses of their own.
const maxRoutes = 64

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

// RoutesRequest asks for routes to exist.
type RoutesRequest struct {
	Ensure []Route `json:"ensure"`
}

// RoutesAnswer is the answer to a [RoutesRequest].
type RoutesAnswer struct {
	// Changed are the routes that had to be made or changed, as the request has them.
	Changed []Route `json:"changed,omitempty"`
}

func routesCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request RoutesRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	if len(request.Ensure) > maxRoutes {
		return fmt.Errorf("%d routes are more than the %d that may be asked for at a time", len(request.Ensure), maxRoutes)
	}
	for _, r := range request.Ensure {
		if err := r.validate(); err != nil {
			return err
		}
	}
	var answer RoutesAnswer
	for _, r := range request.Ensure {
		changed, err := host.EnsureRoute(ctx, r)
		if err != nil {
			return fmt.Errorf("route to %s: %w", r.Destination, err)
		}
		if changed {
			answer.Changed = append(answer.Changed, r)
		}
	}
	return writeJSON(stdout, answer)
}

// validate refuses what would cut the host off or cannot be meant.
func (r Route) validate() error {
	switch {
	case !r.Destination.IsValid():
		return errors.New("a route has no destination")
	case r.Destination.Bits() == 0:
		return errors.New("a default route cannot be set: it would cut off the connection that asks for it")
	case r.Destination != r.Destination.Masked():
		return fmt.Errorf("route to %s: the address has bits behind the prefix, use %s", r.Destination, r.Destination.Masked())
	case r.Gateway.IsValid() && r.Gateway.Is4() != r.Destination.Addr().Is4():
		return fmt.Errorf("route to %s: the gateway %s is of another IP version", r.Destination, r.Gateway)
	case r.Interface < 0:
		return fmt.Errorf("route to %s: %d is no index of an adapter", r.Destination, r.Interface)
	}
	return nil
}
