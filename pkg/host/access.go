// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package host does things on the host behind a WindowsInstance, for the API
// server and for the controller alike: it finds the credentials, applies the policy
// on host keys and addresses, puts the agent on the host and speaks its protocol, sends
// it the programs of a node and has it set up and cleaned, and runs what users ask for.
// It must not import the registry or a controller, which both build on it.
package host

import (
	"context"
	"net/netip"
	"sync"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// Options are what an [Access] needs.
type Options struct {
	// Pool holds the connections.
	Pool *ssh.Pool
	// ReadSecret returns the data of a Secret.
	ReadSecret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// ReadPool returns a pool, whose template may name the credentials of its hosts.
	ReadPool func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error)
	// ClusterCredentials is the Secret with the cluster-wide key.
	ClusterCredentials types.NamespacedName
	// Agents are the builds of the agent.
	Agents *Bundle
	// Payload has what Deliver sends. Nil: nothing can be sent.
	Payload *payload.Payload
	// Transfer are the limits of sending.
	Transfer TransferLimits
	// TransferPool holds the connections for sending; see [transfer.PoolOptions]. Nil: Pool.
	//
	// [transfer.PoolOptions]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/host/transfer#PoolOptions
	TransferPool *ssh.Pool
}

// TransferLimits bound what is sent to hosts. Zero fields are no limit, but for FilesPerHost.
type TransferLimits struct {
	// HostBytesPerSecond and TotalBytesPerSecond are for each host, and for all together.
	HostBytesPerSecond, TotalBytesPerSecond int64
	// FilesPerHost is how many files move to one host at a time. Default 4.
	FilesPerHost int
}

// Access reaches hosts. It is safe for concurrent use.
type Access struct {
	options     Options
	ensure      singleflight.Group
	probe       singleflight.Group
	credentials credentialCache
	transfer    *transfer.Transfer
	patience    patience

	mu sync.Mutex
	// placed remembers the path of the agent on the hosts where it is known to be.
	placed map[string]string
	// shells are the login shells of hosts that were asked for them.
	shells map[string]knownShell
	// verified are the digests of contents of the payload that were read completely.
	verified map[string]bool
}

// New returns an Access.
func New(o Options) *Access {
	if o.TransferPool == nil {
		o.TransferPool = o.Pool
	}
	a := &Access{options: o, patience: defaultPatience, placed: map[string]string{}, shells: map[string]knownShell{}, verified: map[string]bool{}}
	a.transfer = transfer.New(transfer.Options{
		Pool: o.TransferPool, Remote: remote{a}, FilesPerHost: o.Transfer.FilesPerHost,
		HostBytesPerSecond: o.Transfer.HostBytesPerSecond, TotalBytesPerSecond: o.Transfer.TotalBytesPerSecond,
	})
	return a
}

// Resolve returns the addresses that the instance stands for and that may be
// dialed. Errors are [ssh.Error]s.
func (a *Access) Resolve(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]netip.Addr, error) {
	return a.options.Pool.Resolve(ctx, address(instance))
}

// HostKey returns the host key that the host presents; of several, one of a type that
// is trusted already. It does not log in. Errors are [ssh.Error]s.
func (a *Access) HostKey(ctx context.Context, instance *v1alpha1.WindowsInstance) (Key, error) {
	target := address(instance)
	var err error
	if target.HostKeys, err = trustedKeys(instance); err != nil {
		return Key{}, err
	}
	key, err := a.options.Pool.HostKey(ctx, target)
	if err != nil {
		return Key{}, err
	}
	return KeyOf(key), nil
}

// Login makes sure that the host presents a trusted key, accepts the credentials
// and opens a session. Errors are [CredentialsError]s and [ssh.Error]s.
func (a *Access) Login(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	target, err := a.target(ctx, instance)
	if err != nil {
		return err
	}
	return a.options.Pool.Ping(ctx, target)
}

// Forget closes the connections to the host, for example because the instance is gone.
func (a *Access) Forget(instance *v1alpha1.WindowsInstance) {
	a.options.Pool.Forget(address(instance))
	if a.options.TransferPool != a.options.Pool {
		a.options.TransferPool.Forget(address(instance))
	}
	a.doubt(address(instance))
}

// Revision names the agent that is put on hosts: its version for people, and the
// name of its content.
func (a *Access) Revision() (release, revision string) {
	return version.Version, a.options.Agents.Revision()
}

// AgentPath is where this process puts the agent on hosts, which is the program of their
// service windows-node-agent. Empty: there is no build.
func (a *Access) AgentPath() string {
	if a.options.Agents == nil {
		return ""
	}
	return commandPath(a.options.Agents.build.name())
}

// address is the target without what is needed to log in.
func address(instance *v1alpha1.WindowsInstance) ssh.Target {
	return ssh.Target{Address: instance.Spec.Address, Port: int(instance.Spec.Port), User: instance.Spec.Username}
}

// target is the target with credentials and trusted host keys.
func (a *Access) target(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Target, error) {
	target := address(instance)
	var err error
	if target.HostKeys, err = trustedKeys(instance); err != nil {
		return ssh.Target{}, err
	}
	if target.Credential, err = a.credential(ctx, instance); err != nil {
		return ssh.Target{}, err
	}
	return target, nil
}
