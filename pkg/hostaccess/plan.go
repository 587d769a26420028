// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Plan says what would be done to bring the host to what it shall be set up with, and
// does none of it. Errors are [CredentialsError]s, [sshpool.Error]s and [AgentError]s.
func (a *Access) Plan(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	target, err := a.target(ctx, instance)
	if err != nil {
		return nil, err
	}
	client, err := a.options.Pool.SFTP(ctx, target)
	if err != nil {
		return nil, err
	}
	// Closing gives the session back; what it could report was reported before.
	defer func() { _ = client.Close() }()
	p, build, err := a.buildFor(client)
	if err != nil {
		return nil, err
	}
	name := agentName(p, build)
	change := v1alpha1.PlannedChange{Kind: "File", Name: commandPath(p, name), Impact: v1alpha1.ImpactNone}
	info, err := client.Stat(sftpPath(p, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		change.Action = "Create"
		change.Message = fmt.Sprintf("The agent of revision %s, %d bytes, is not on the host.", build.revision(), build.size)
	case err != nil:
		return nil, &AgentError{Step: StepVerify, Err: fmt.Errorf("looking for %s: %w", change.Name, err)}
	case info.Size() != build.size || a.verifyAgent(ctx, target, commandPath(p, name), build) != nil:
		change.Action = "Update"
		change.Message = fmt.Sprintf("What is there is not the agent of revision %s: it has %d bytes of %d, or another digest.", build.revision(), info.Size(), build.size)
	default:
		return nil, nil
	}
	return []v1alpha1.PlannedChange{change}, nil
}
