// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package host connects to the host behind a WindowsInstance, for the API server and for
// the controller alike: it finds the credentials, applies the policy on host keys and
// addresses, and runs what users request. What is done with the agent on a host is in
// package agentclient; what an error means is in package diagnose.
//
// It must not import these two, nor the registry or a controller, which build on it.
package host

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/lookup"
	"github.com/openshift/windows-instance-api/pkg/host/shell"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Options are what a [Connector] needs.
type Options struct {
	// Pool holds the connections.
	Pool *ssh.Pool
	// ReadSecret returns a Secret.
	ReadSecret func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// ReadPool returns a pool, whose template may name the credentials and the bastion of its hosts. It is only read.
	ReadPool func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error)
	// ClusterCredentials is the Secret with the cluster-wide key.
	ClusterCredentials types.NamespacedName
}

// Connector connects to hosts. It is safe for concurrent use.
type Connector struct {
	options     Options
	credentials CredentialCache
	readings    readings
	// shells are the login shells that hosts were found to have, by the owner of the target.
	shells lookup.Cache[shell.Shell]
	// now is the clock by which certificates expire.
	now func() time.Time
}

// New returns a Connector.
func New(o Options) *Connector {
	return &Connector{options: o, shells: lookup.Cache[shell.Shell]{Lifetime: shellLifetime}, now: time.Now}
}

// Resolve returns the addresses that the instance stands for and that may be
// dialed. Errors are [ssh.Error]s.
func (c *Connector) Resolve(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]netip.Addr, error) {
	return c.options.Pool.Resolve(ctx, Address(instance))
}

// HostKey returns the host key that the host presents; of several, one of a type that
// is trusted already. It does not log in to the host. Errors are [ssh.Error]s, and [CredentialsError]s where there is a bastion.
func (c *Connector) HostKey(ctx context.Context, instance *v1alpha1.WindowsInstance) (Key, error) {
	target, err := c.way(ctx, instance)
	if err != nil {
		return Key{}, err
	}
	key, err := c.options.Pool.HostKey(ctx, target)
	if err != nil {
		return Key{}, err
	}
	return KeyOf(key), nil
}

// Peer is the host at the other end of a connection that was logged in to.
type Peer struct {
	// Address is where that was.
	Address netip.Addr
	// Bastion is what that was through, as [v1alpha1.Bastion.Endpoint] says it: Address is then what the bastion was told.
	// Empty: directly.
	Bastion string
	// Key is the host key that it has proven to have.
	Key Key
	// Accepted is the fingerprint of the key of ours that it took. Empty: it took a password.
	Accepted string
	// Certified: it took a certificate of that key, and may not take the key by itself.
	Certified bool
	// Wanted is the fingerprint of the key that it is to accept: of several that its Secret has the one that it took, else the
	// first. Empty: it has a password only.
	Wanted string
	// Loses are the fingerprints of the compromised keys that its Secret still has besides Wanted: it is to accept none of them.
	Loses []string
	// With says what it took where that is a certificate, for people. Empty: something else.
	With string
	// Remark is what people should know of compromised keys of the Secret, and of certificates that were not taken, in sentences.
	// Empty: nothing.
	Remark string
}

// Login makes sure that the host presents a trusted key, accepts the credentials
// and opens a session, and returns who that was. Errors are [CredentialsError]s and [ssh.Error]s.
func (c *Connector) Login(ctx context.Context, instance *v1alpha1.WindowsInstance) (Peer, error) {
	target, current, err := c.target(ctx, instance)
	if err != nil {
		return Peer{}, err
	}
	met, err := c.options.Pool.Login(ctx, target)
	if err != nil {
		return Peer{}, err
	}
	peer := peerOf(target, met)
	if wanted, ok := current.wanted(peer.Accepted); ok {
		peer.Wanted = wanted.fingerprint()
		for _, i := range current.lost() {
			peer.Loses = append(peer.Loses, i.fingerprint())
		}
	}
	if peer.Certified {
		peer.With, peer.Remark = current.describeCertificate(peer.Accepted), target.Credential.Warning
	} else {
		peer.Remark = target.Credential.Remark
	}
	return peer, nil
}

// peerOf is who was met on the way to a host, as far as the connection says it.
func peerOf(target ssh.Target, met ssh.Peer) Peer {
	return Peer{Address: met.Address, Bastion: endpointOf(target.Bastion), Key: KeyOf(met.HostKey), Accepted: KeyOf(met.Accepted).Fingerprint(), Certified: met.Certified}
}

// Forget closes the connections of an instance to its host, for example because the instance is
// gone, and forgets what was found out about the host. Those of another instance stay, also if
// it names the same host.
func (c *Connector) Forget(instance *v1alpha1.WindowsInstance) {
	target := Address(instance)
	c.options.Pool.Forget(target.Owner)
	c.Invalidate(target)
}

// Invalidate forgets what was found out about a host: it may have been reinstalled.
func (c *Connector) Invalidate(target ssh.Target) {
	c.shells.Forget(target.Owner)
}

// Address is where the host of an instance is contacted, for whom, and as whom: the target
// without what is needed to reach it and to log in.
func Address(instance *v1alpha1.WindowsInstance) ssh.Target {
	return ssh.Target{
		Owner: instance.Namespace + "/" + instance.Name, Namespace: instance.Namespace,
		Address: instance.Spec.Address, Port: int(instance.Spec.Port), User: instance.Spec.Username,
	}
}

// Target is how to log in to the host of the instance: with its credentials and trusted host keys, and through its bastion.
func (c *Connector) Target(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Target, error) {
	target, _, err := c.target(ctx, instance)
	return target, err
}

// target is Target, and the credentials of the Secret.
func (c *Connector) target(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Target, credentials, error) {
	var current credentials
	target, err := c.way(ctx, instance)
	if err != nil {
		return ssh.Target{}, current, err
	}
	if current, target.Credential, err = c.credential(ctx, instance); err != nil {
		return ssh.Target{}, current, err
	}
	return target, current, nil
}
