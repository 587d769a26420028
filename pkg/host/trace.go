// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Trace is the way to a host, made once more from the beginning. It must be closed.
type Trace struct {
	// Trace says how far it came. Its pool has the only connection.
	*ssh.Trace
	// Target is how the host is logged in to.
	Target ssh.Target
	// KeysErr is why no key of the host is trusted. Nil: those of Target are.
	KeysErr error
	// BastionErr is why it is not known whether there is a bastion, or nothing could be logged in to it with, which took
	// BastionDuration to find out. Nil: that of Target, if it has one, is used.
	BastionErr      error
	BastionDuration time.Duration
	// CredentialErr is why nothing could be logged in with, which took CredentialDuration to
	// find out. Nil: there are credentials.
	CredentialErr      error
	CredentialDuration time.Duration

	current credentials
}

// Trace tries each layer on the way to the host of the instance, up to an open session, over a
// connection of its own. Without credentials it ends with the host key, and without those of a bastion before that. A bastion that has
// refused the login is logged in to again.
func (c *Connector) Trace(ctx context.Context, instance *v1alpha1.WindowsInstance) *Trace {
	t := &Trace{Target: Address(instance)}
	t.Target.HostKeys, t.KeysErr = trustedKeys(instance)
	began := time.Now()
	t.Target.Bastion, t.BastionErr = c.bastion(ctx, instance)
	t.BastionDuration = time.Since(began)
	began = time.Now()
	t.current, t.Target.Credential, t.CredentialErr = c.credential(ctx, instance)
	t.CredentialDuration = time.Since(began)
	t.Trace = c.options.Pool.Trace(ctx, t.Target, ssh.TraceOptions{WithoutBastion: t.BastionErr != nil, WithoutLogin: t.CredentialErr != nil, Insists: true})
	return t
}

// AcceptedCredential says what of ours the host took, for people. Empty: it was not logged in to.
func (t *Trace) AcceptedCredential() string {
	switch {
	case t.Pool == nil:
		return ""
	case t.Accepted == nil:
		return "a password"
	case t.Certified:
		return t.current.describeCertificate(KeyOf(t.Accepted).Fingerprint())
	}
	return "key " + KeyOf(t.Accepted).Fingerprint()
}
