// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// maxRoutes bounds a request; a cloud has a handful of services on addresses of their own.
const maxRoutes = 64

func routesCommand(ctx context.Context, host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.RoutesRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	if len(request.Ensure) > maxRoutes {
		return fmt.Errorf("%d routes are more than the %d of one request", len(request.Ensure), maxRoutes)
	}
	for _, r := range request.Ensure {
		if err := validateRoute(r); err != nil {
			return err
		}
	}
	var answer api.RoutesAnswer
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

// validateRoute refuses routes that would cut the host off or are mistakes.
func validateRoute(r api.Route) error {
	switch {
	case !r.Destination.IsValid():
		return errors.New("a route has no destination")
	case r.Destination.Bits() == 0:
		return errors.New("a default route cannot be set: it would cut off the connection of the request")
	case r.Destination != r.Destination.Masked():
		return fmt.Errorf("route to %s: the address has bits behind the prefix, use %s", r.Destination, r.Destination.Masked())
	case r.Gateway.IsValid() && r.Gateway.Is4() != r.Destination.Addr().Is4():
		return fmt.Errorf("route to %s: the gateway %s is of another IP version", r.Destination, r.Gateway)
	case r.Interface < 0:
		return fmt.Errorf("route to %s: %d is not the index of an adapter", r.Destination, r.Interface)
	}
	return nil
}
