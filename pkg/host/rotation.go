// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Rotation is what a host needs to get the key that its Secret has, in the place of those that it had.
type Rotation struct {
	// Key is the key that the host is to accept: of several that the Secret has the one that it accepts, else the first. The
	// zero Key: the Secret has a password only, and there is nothing to rotate to.
	Key Key
	// Current are all keys that the Secret has.
	Current []Key
	// Certified: the host accepts a certificate of Key, and need not have the key itself.
	Certified bool
	// Former are the keys that the host is to lose: those of the Secret that are compromised, while it has others, and those that it
	// has no more, newest first, as far as they were kept, also those with which nobody is to log in any more.
	Former []Key
	// Kept: Key was kept, so that it is not lost when the Secret gets another one.
	Kept bool
	// Login is how to log in with any of these, or a password.
	Login ssh.Target
	// Proof is how to log in with Key, or its certificate, and nothing else.
	Proof ssh.Target
}

// Rotation says what the host of an instance needs, which was logged in to as a peer. It does not contact the host. Errors are
// [CredentialsError]s.
func (c *Connector) Rotation(ctx context.Context, instance *v1alpha1.WindowsInstance, peer Peer) (Rotation, error) {
	target, err := c.way(ctx, instance)
	if err != nil {
		return Rotation{}, err
	}
	name, current, err := c.currentCredential(ctx, instance)
	if err != nil {
		return Rotation{}, err
	}
	wanted, ok := current.wanted(peer.Accepted)
	if !ok {
		return Rotation{}, nil
	}
	former, err := c.formerCredentials(ctx, name, current)
	if err != nil {
		return Rotation{}, err
	}
	r := Rotation{
		Key: wanted.key(), Kept: slices.Contains(former.kept, wanted.fingerprint()),
		Certified: peer.Certified && peer.Accepted == wanted.fingerprint(), Login: target, Proof: target,
	}
	for _, i := range current.lost() {
		r.Former = append(r.Former, i.key())
	}
	for _, i := range current.identities {
		r.Current = append(r.Current, i.key())
	}
	r.Former = append(r.Former, former.keys...)
	r.Login.Credential = c.offered(name, current, former.credentials, instance)
	// Not the connections of credentials that have a password too, or other keys.
	r.Proof.Credential = offered(credentials{id: wanted.fingerprint() + " of " + current.id, identities: []identity{wanted}}, nil, nil, c.now())
	return r, nil
}
