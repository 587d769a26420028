// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// restartServices has the host restart the services of the node. It can be done again after an interruption.
func (e *execution) restartServices(ctx context.Context) (result, error) {
	if err := e.ensureWanted(ctx); err != nil {
		return result{}, err
	}
	done, err := e.change(ctx, "Restarting the services of the node.", e.Hosts.RestartServices)
	if err != nil {
		return result{}, err
	}
	if done.Outcome == api.OutcomeFailed {
		return result{}, fmt.Errorf("the services of the node could not be restarted: %s", done.Error)
	}
	names := make([]string, len(done.Changed))
	for i, item := range done.Changed {
		names[i] = item.Name
	}
	return result{message: fmt.Sprintf("Services that were restarted: %s.", words.Enumerate(names, maxNamed))}, nil
}
