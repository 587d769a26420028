// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// reachPatience is for how long a host that is about to join may fail to reach the API server: a load balancer or a
// resolver that is being updated answers after a moment.
const reachPatience = time.Minute

// ensureReaches has a host that is about to join try whether it reaches the API server as its kubelet will. Whatever keeps
// it from that keeps it from joining, and is said before anything is changed on it.
func (e *execution) ensureReaches(ctx context.Context, request api.ReachRequest) error {
	return e.waitUntil(ctx, e.clock.Now().Add(reachPatience), "Waiting until the host reaches the API server.", func(ctx context.Context) (string, error) {
		answer, err := ask(ctx, e.clock, e.clock.Now().Add(patience), askTimeout, func(ctx context.Context) (api.ReachAnswer, error) {
			return e.Hosts.Reach(ctx, e.instance, request)
		})
		if err != nil {
			return "", e.blame(ctx, "the host does not say whether it reaches the API server", err)
		}
		if answer.Failed == "" {
			return "", nil
		}
		return fmt.Sprintf("the host cannot join, because it does not reach the API server: %s", diagnose.Unreached(request.URL, answer)), nil
	})
}
