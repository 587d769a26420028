// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// BootID says which boot the host is in: it is another one after each restart. Errors are
// those of [Hosts], [ssh.Error]s and [Error]s.
func (a *Client) BootID(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	var boot api.BootFacts
	if _, err := a.query(ctx, instance, query{command: api.CommandBoot}, &boot); err != nil {
		return "", err
	}
	return boot.ID, nil
}

// Restart restarts the host, if it still is in the boot that the request names. It returns
// when the host has agreed, which is before it goes down. A refusal is an [Error] of
// [StepRefused]. After an error of [StepRun], or of the connection, it is not known whether the host
// restarts: the agent, too, ends when it does. As the request names the boot, it can be made again,
// over a new connection; it is not repeated here, because an error of the second one would hide
// that the first one may have been heard. Errors are those of BootID.
func (a *Client) Restart(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.RestartRequest) (api.RestartAnswer, error) {
	var answer api.RestartAnswer
	if request.BootID == "" {
		return answer, errors.New("restarting a host: the request does not say which boot is to end")
	}
	to, err := a.login(ctx, instance)
	if err != nil {
		return answer, err
	}
	placed, err := a.ensureAgent(ctx, to)
	if err != nil {
		return answer, err
	}
	_, err = queryProgram(ctx, a.options.Pool, to.Target, placed.command, query{command: api.CommandRestart, request: request}, &answer)
	if mayBeGone(err) {
		a.misplaced(to.Target, placed)
	}
	if err == nil && answer.Refused != "" {
		err = &Error{Step: StepRefused, Err: errors.New(answer.Refused)}
	}
	return answer, err
}

// EnsureRoutes makes sure that the host sends packets to the given destinations the given
// way, and returns the routes that had to be made. They last until the next restart.
// Errors are those of BootID; after one, some of the routes may have been made.
func (a *Client) EnsureRoutes(ctx context.Context, instance *v1alpha1.WindowsInstance, routes []api.Route) (changed []api.Route, err error) {
	var answer api.RoutesAnswer
	if _, err := a.query(ctx, instance, query{command: api.CommandRoutes, request: api.RoutesRequest{Ensure: routes}}, &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Changed {
		if !slices.Contains(routes, r) {
			return nil, &Error{Step: StepRun, Err: fmt.Errorf("it reports that it added the route to %s, which was not requested", r.Destination)}
		}
	}
	return answer.Changed, nil
}
