// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Installed is the agent that is on a host already.
type Installed struct {
	// Digest names its build, as [Bundle.Digest] does.
	Digest string

	pool    *ssh.Pool
	target  ssh.Target
	command string
}

// Installed verifies the agent on a host over connections of the given pool, and changes nothing
// there. An agent that is not there is an [fs.ErrNotExist], with the digest of the one that
// would be put there.
func (a *Client) Installed(ctx context.Context, pool *ssh.Pool, target ssh.Target) (Installed, error) {
	client, err := pool.SFTP(ctx, target)
	if err != nil {
		return Installed{}, err
	}
	// Closing gives the session back; what it could report was reported before.
	defer func() { _ = client.Close() }()
	if err := checkWindows(client); err != nil {
		return Installed{}, err
	}
	build := a.options.Agents.build
	i := Installed{Digest: build.shortDigest(), pool: pool, target: target, command: commandPath(build.name())}
	info, err := client.Stat(overSFTP(i.command))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return i, fs.ErrNotExist
	case err != nil:
		return i, &Error{Step: StepVerify, Err: fmt.Errorf("looking for %s: %w", i.command, err)}
	case info.Size() != build.size:
		return i, &Error{Step: StepVerify, Err: fmt.Errorf("%s has %d bytes on the host, and %d here", i.command, info.Size(), build.size)}
	}
	return i, a.verifyAgent(ctx, pool, target, i.command, build)
}

// Facts has the agent report on its host. It is not put there again if it is gone meanwhile.
func (i Installed) Facts(ctx context.Context) (*api.Facts, error) {
	facts := &api.Facts{}
	if _, err := askProgram(ctx, i.pool, i.target, i.command, askFacts, facts); err != nil {
		return nil, err
	}
	return facts, nil
}
