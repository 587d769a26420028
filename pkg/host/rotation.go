// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Rotation is what a host needs to get the key that its Secret has, in the place of those that it had.
type Rotation struct {
	// Key is the key that hosts are to accept. The zero Key: the Secret has a password only, and there is nothing
	// to rotate to.
	Key Key
	// Former are the keys that the Secret has no more, newest first, as far as they were kept: also those with which nobody
	// is to log in any more.
	Former []Key
	// Kept: Key was kept, so that it is not lost when the Secret gets another one.
	Kept bool
	// Login is how to log in with any of these, or a password.
	Login ssh.Target
	// Proof is how to log in with Key and nothing else.
	Proof ssh.Target
}

// Rotation says what the host of an instance needs. It does not contact the host. Errors are [CredentialsError]s.
func (c *Connector) Rotation(ctx context.Context, instance *v1alpha1.WindowsInstance) (Rotation, error) {
	target := Address(instance)
	var err error
	if target.HostKeys, err = trustedKeys(instance); err != nil {
		return Rotation{}, err
	}
	name, current, err := c.currentCredential(ctx, instance)
	if err != nil || len(current.Signers) == 0 {
		return Rotation{}, err
	}
	former, err := c.formerCredentials(ctx, name, current)
	if err != nil {
		return Rotation{}, err
	}
	r := Rotation{Key: KeyOf(current.Signers[0].PublicKey()), Former: former.keys, Kept: former.current, Login: target, Proof: target}
	r.Login.Credential = offered(current, former.credentials, instance.Status.Credentials)
	// Not the connections of a credential that has a password too.
	r.Proof.Credential = ssh.Credential{ID: "key of " + current.ID, Signers: current.Signers}
	return r, nil
}
