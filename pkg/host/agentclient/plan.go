// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Plan says what would be done to bring the host to what the bundle says, and does none of
// it. A nil bundle is about the agent only. Without the agent nothing can inspect the
// host, so that it is the only change of a plan in which it is missing. Errors are
// those of [Hosts], [ssh.Error]s and [Error]s.
//
// [ssh.Error]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/ssh#Error
func (a *Client) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance, bundle *config.Bundle) ([]v1alpha1.PlannedChange, error) {
	if bundle == nil {
		agent, err := a.planAgent(ctx, instance)
		if agent == nil {
			return nil, err
		}
		return []v1alpha1.PlannedChange{*agent}, err
	}
	return a.planChanges(ctx, instance, func() (*api.Plan, error) { return a.PlanConfiguration(ctx, instance, bundle) })
}

// PlanUpdateOfAdopted says what the first update of a host would do after it was adopted, as [Client.Plan] does, or why it cannot be adopted.
func (a *Client) PlanUpdateOfAdopted(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest) ([]v1alpha1.PlannedChange, error) {
	return a.planChanges(ctx, instance, func() (*api.Plan, error) { return a.PlanAdoption(ctx, instance, request) })
}

// planChanges has the agent plan, if it is on the host.
func (a *Client) planChanges(ctx context.Context, instance *v1alpha1.WindowsInstance, ask func() (*api.Plan, error)) ([]v1alpha1.PlannedChange, error) {
	agent, err := a.planAgent(ctx, instance)
	if err != nil {
		return nil, err
	}
	if agent != nil {
		agent.Message += " What else would change is not known before that, because the agent inspects the host."
		return []v1alpha1.PlannedChange{*agent}, nil
	}
	plan, err := ask()
	if err != nil {
		return nil, err
	}
	return plannedChanges(plan, instance.Spec.Address), nil
}

// planAgent is what would be done to the agent on the host; nil: nothing.
func (a *Client) planAgent(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.PlannedChange, error) {
	target, err := a.options.Hosts.Target(ctx, instance)
	if err != nil {
		return nil, err
	}
	client, err := openSFTP(ctx, a.options.Pool, target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	build := a.options.Agents
	change := &v1alpha1.PlannedChange{Kind: string(api.KindFile), Name: build.command(), Impact: v1alpha1.ImpactNone}
	_, err = findAgent(ctx, a.options.Pool, target, client, build)
	if err == nil {
		return nil, nil //nolint:nilnil // nothing to do is what one hopes for
	}
	if _, broken := ssh.AsError(err); broken {
		return nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		change.Action = string(api.ActionCreate)
		change.Message = fmt.Sprintf("The agent with the digest %s, %d bytes, is not on the host.", build.Digest(), build.size)
	} else {
		change.Action = string(api.ActionUpdate)
		change.Message = fmt.Sprintf("The file on the host is not the agent with the digest %s: %s.", build.Digest(), answer.Line(errors.Unwrap(err).Error(), answer.MaxText))
	}
	return change, nil
}

// KindHost is the kind of a planned change that is about the host as a whole: a restart
// that has to come before anything else.
const KindHost = "Host"

// plannedChanges is a plan in the words of the API.
func plannedChanges(plan *api.Plan, address string) []v1alpha1.PlannedChange {
	changes := make([]v1alpha1.PlannedChange, 0, len(plan.Items)+1)
	if len(plan.Reboot) > 0 {
		changes = append(changes, v1alpha1.PlannedChange{
			Kind: KindHost, Name: address, Action: string(api.ActionUpdate), Impact: v1alpha1.ImpactReboot,
			Message: fmt.Sprintf("It must be restarted before anything else is done, for %s. The changes below are those known to follow.", strings.Join(plan.Reboot, ", ")),
		})
	}
	for _, i := range plan.Items {
		change := v1alpha1.PlannedChange{Kind: string(i.Kind), Name: i.Name, Action: string(i.Action), Impact: v1alpha1.ChangeImpact(i.Impact), Message: i.Reason}
		if len(i.Services) > 0 {
			change.Message += fmt.Sprintf("; restarted for it: %s", strings.Join(i.Services, ", "))
		}
		changes = append(changes, change)
	}
	return changes
}
