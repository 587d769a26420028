// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"

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
// there. An agent that does not exist is an [fs.ErrNotExist], with the digest of the one that
// would be put there.
func (a *Client) Installed(ctx context.Context, pool *ssh.Pool, target ssh.Target) (Installed, error) {
	client, err := openSFTP(ctx, pool, target)
	if err != nil {
		return Installed{}, err
	}
	defer func() { _ = client.Close() }()
	build := a.options.Agents
	i := Installed{Digest: build.Digest(), pool: pool, target: target, command: build.command()}
	_, err = findAgent(ctx, pool, target, client, build)
	return i, err
}

// Facts has the agent report on its host. It is not put there again if it is gone meanwhile.
func (i Installed) Facts(ctx context.Context) (*api.Facts, error) {
	facts := &api.Facts{}
	if _, err := queryProgram(ctx, i.pool, i.target, i.command, factsQuery, facts); err != nil {
		return nil, err
	}
	return facts, nil
}
