// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Updates leaves a request about updates of Windows for the service of the host, and returns how far that is: nil if the
// service has not noticed it yet. The same request may be made again. A refusal is an [Error] of [StepRefused]; other errors
// are those of BootID.
func (a *Client) Updates(ctx context.Context, instance *v1alpha1.WindowsInstance, request api.UpdatesRequest) (*api.UpdateAttempt, error) {
	var answer api.UpdatesAnswer
	if _, err := a.query(ctx, instance, query{command: api.CommandUpdates, request: request}, &answer); err != nil {
		return nil, err
	}
	if answer.Refused != "" {
		return nil, &Error{Step: StepRefused, Err: errors.New(answer.Refused)}
	}
	if answer.Attempt != nil && answer.Attempt.Request != request {
		return nil, &Error{Step: StepRun, Err: errors.New("it reports on another request than the one that was made")}
	}
	return answer.Attempt, nil
}
