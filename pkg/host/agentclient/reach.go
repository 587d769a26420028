// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"fmt"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// reachLayers are those at which a host may fail. Empty: it has not.
var reachLayers = []api.ReachLayer{"", api.ReachDNS, api.ReachConnect, api.ReachProxy, api.ReachTLS, api.ReachHTTP}

// Reach has the host try whether it reaches the API server. That it does not is an answer. Errors are those of BootID.
func (a *Client) Reach(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.ReachRequest) (api.ReachAnswer, error) {
	var answer api.ReachAnswer
	q := query{command: api.CommandReach, request: request}
	if len(request.Proxy) > 0 { // it may have a password
		q.bundle = &config.Bundle{Secrets: config.Secrets{"proxy": request.Proxy}}
	}
	if _, err := a.query(ctx, instance, q, &answer); err != nil {
		return api.ReachAnswer{}, err
	}
	if !slices.Contains(reachLayers, answer.Failed) {
		return api.ReachAnswer{}, &Error{Step: StepRun, Err: fmt.Errorf("it failed to reach the API server at a layer %q that there is not", answer.Failed)}
	}
	return answer, nil
}
