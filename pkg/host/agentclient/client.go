// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agentclient works with the agent on the host behind a WindowsInstance: it puts the
// agent there and requests facts and logs from it, has it plan, apply and remove a desired
// configuration, sends it the programs of a node, and removes it from the host. It verifies the
// agent by its digest, and trusts nothing that a host answers; see package answer.
//
// It must not import the registry or a controller, which both build on it, nor decide what an
// error means for them, which package diagnose does.
package agentclient

import (
	"context"
	"sync"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/lookup"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// Hosts is what a [Client] needs of the way to hosts: of a [host.Connector].
type Hosts interface {
	// Target is how to log in to the host of an instance.
	Target(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Target, error)
	// Invalidate forgets what was found out about a host.
	Invalidate(target ssh.Target)
	// Forget closes the connections to the host of an instance.
	Forget(instance *v1alpha1.WindowsInstance)
}

// Options are what a [Client] needs.
type Options struct {
	// Hosts says how to log in to a host.
	Hosts Hosts
	// Pool holds the connections.
	Pool *ssh.Pool
	// Agents has the build of the agent.
	Agents *Bundle
	// Payload has what Deliver sends. Nil: nothing can be sent.
	Payload *payload.Set
	// Transfer are the limits of sending.
	Transfer TransferLimits
	// TransferPool holds the connections for sending; see [transfer.PoolOptions]. Nil: Pool.
	TransferPool *ssh.Pool
}

// TransferLimits bound what is sent to hosts. Zero fields are no limit, but for FilesPerHost.
type TransferLimits struct {
	// HostBytesPerSecond and TotalBytesPerSecond are for each host, and for all together.
	HostBytesPerSecond, TotalBytesPerSecond int64
	// FilesPerHost is how many files move to one host at a time. Default 4.
	FilesPerHost int
}

// Client works with the agents of hosts. It is safe for concurrent use.
type Client struct {
	options  Options
	transfer *transfer.Transfer
	patience patience
	// placed is the agent on the hosts where it is known to be, by the owner of the target.
	placed lookup.Cache[*placement]

	mu sync.Mutex
	// verified are the digests of contents of the payload that were read completely.
	verified map[string]bool
}

// New returns a Client.
func New(o Options) *Client {
	if o.TransferPool == nil {
		o.TransferPool = o.Pool
	}
	a := &Client{options: o, patience: defaultPatience, verified: map[string]bool{}}
	a.transfer = transfer.New(transfer.Options{
		Pool: o.TransferPool, Remote: remote{a}, FilesPerHost: o.Transfer.FilesPerHost,
		HostBytesPerSecond: o.Transfer.HostBytesPerSecond, TotalBytesPerSecond: o.Transfer.TotalBytesPerSecond,
	})
	return a
}

// Forget closes the connections of an instance to its host, for example because the instance is
// gone, and has the agent on the host verified again.
func (a *Client) Forget(instance *v1alpha1.WindowsInstance) {
	target := host.Address(instance)
	a.options.Hosts.Forget(instance)
	if a.options.TransferPool != a.options.Pool {
		a.options.TransferPool.Forget(target.Owner)
	}
	a.invalidate(target)
}

// invalidate forgets that the agent is on a host, and what else was found out about the host:
// the agent may have been removed, or the host reinstalled.
func (a *Client) invalidate(target ssh.Target) {
	a.placed.Forget(target.Owner)
	a.options.Hosts.Invalidate(target)
}

// misplaced is invalidate for a caller that did not find the agent where it was placed. Of several
// callers that notice it, only the first one has it placed again.
func (a *Client) misplaced(target ssh.Target, placed *placement) {
	a.placed.ForgetValue(target.Owner, placed)
	a.options.Hosts.Invalidate(target)
}

// Agent names the agent that is put on hosts: its version for people, and the beginning of
// its SHA-256 digest.
func (a *Client) Agent() (release, digest string) {
	return version.Version, a.options.Agents.Digest()
}

// AgentPath is where this process puts the agent on hosts, which is the program of their
// service windows-node-agent. Empty: there is no build.
func (a *Client) AgentPath() string {
	if a.options.Agents == nil {
		return ""
	}
	return a.options.Agents.command()
}
