// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// ensureRoutes makes the routes of a document that are missing, which they are after each restart,
// whoever asked for it. A failure with one does not stop the others.
func (k *keeper) ensureRoutes(ctx context.Context, d *config.Document) error {
	if k.options.EnsureRoute == nil {
		return nil
	}
	var errs []error
	for _, destination := range d.Routes {
		if _, err := k.options.EnsureRoute(ctx, api.Route{Destination: destination}); err != nil {
			errs = append(errs, fmt.Errorf("route to %s: %w", destination, err))
		}
	}
	return errors.Join(errs...)
}
