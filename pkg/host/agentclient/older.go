// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// maxOlder is how many other builds on a host are tried.
const maxOlder = 3

// agentProgram matches the names of builds of the agent, and the beginning of their digest in them.
var agentProgram = regexp.MustCompile(`^windows-node-agent-([0-9a-f]{16})\.exe$`)

// withReader is withAgent for what only reads: where the agent cannot be put on the host, because its disk is full for example, another
// build that is there does it. That is one of ours only as far as its name and its answer say so. Whoever can write to its directory is an
// administrator of the host, its answer is not believed in any case, and it gets no secret.
func (a *Client) withReader(ctx context.Context, to login, do func(program string) error) error {
	err := a.withAgent(ctx, to, do)
	failed, ok := errors.AsType[*Error](err)
	if _, lost := ssh.AsError(err); !ok || failed.Step != StepUpload || lost || ctx.Err() != nil {
		return err
	}
	if program := a.olderAgent(ctx, to); program != "" {
		return do(program)
	}
	return err
}

// olderAgent returns the newest other build of the agent on the host that uses our version of the protocol. Empty: there is none.
func (a *Client) olderAgent(ctx context.Context, to login) string {
	client, err := openSFTP(ctx, a.options.Pool, to.Target)
	if err != nil {
		return ""
	}
	defer func() { _ = client.Close() }()
	entries, err := client.ReadDir(overSFTP(agentDir))
	if err != nil {
		return ""
	}
	entries = slices.DeleteFunc(entries, func(e os.FileInfo) bool {
		return e.IsDir() || !agentProgram.MatchString(e.Name()) || e.Name() == a.options.Agents.name()
	})
	slices.SortFunc(entries, func(x, y os.FileInfo) int { return y.ModTime().Compare(x.ModTime()) })
	for _, e := range entries[:min(len(entries), maxOlder)] {
		command := commandPath(e.Name())
		said, err := askVersion(ctx, a.options.Pool, to.Target, command)
		if err == nil && said.Protocol == api.ProtocolVersion && strings.HasPrefix(said.SHA256, agentProgram.FindStringSubmatch(e.Name())[1]) &&
			v1alpha1.SameMachine(to.machine, said.MachineID) {
			return command
		}
	}
	return ""
}
