// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
)

// BareKey returns the public key of private-key.pem of a Secret, as programs read it that know of no passphrase, no certificate
// and no further keys; the zero Key if it has a password only. Errors are [CredentialsError]s.
func (c *Connector) BareKey(ctx context.Context, secret types.NamespacedName) (Key, error) {
	bare, err := c.bare(ctx, secret)
	if err != nil || len(bare.identities) == 0 {
		return Key{}, err
	}
	return bare.identities[0].key(), nil
}

// LoginBare is [Connector.Login] with nothing but that key, whatever the credentials of the instance are, on a connection that is
// made for it. A host that refuses the key is no error: there is no Peer then.
func (c *Connector) LoginBare(ctx context.Context, instance *v1alpha1.WindowsInstance, secret types.NamespacedName) (*Peer, error) {
	bare, err := c.bare(ctx, secret)
	if err != nil {
		return nil, err
	}
	target, err := c.way(ctx, instance)
	if err != nil {
		return nil, err
	}
	target.Credential = offered(bare, nil, nil, c.now())
	target.Owner += ", with the bare key"
	defer c.options.Pool.Forget(target.Owner) // the next one is to find out anew
	met, err := c.options.Pool.Login(ctx, target)
	if refused, ok := ssh.AsError(err); ok && refused.Reason == ssh.ReasonCredentialsRefused {
		return nil, nil //nolint:nilnil // it is an answer
	}
	if err != nil {
		return nil, err
	}
	return &Peer{Address: met.Address, Bastion: endpointOf(target.Bastion), Key: KeyOf(met.HostKey), Accepted: KeyOf(met.Accepted).Fingerprint()}, nil
}

// EncryptUsername returns the user of a host as WMCO reads it on its Node: encrypted with private-key.pem of a Secret, which
// must not be encrypted itself, as the passphrase. Errors are [CredentialsError]s.
func (c *Connector) EncryptUsername(ctx context.Context, secret types.NamespacedName, user string) (string, error) {
	if key, err := c.BareKey(ctx, secret); err != nil || key.IsZero() {
		return "", cmp.Or[error](err, &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("has no key %s", keyPrivateKey)})
	}
	content, err := c.options.ReadSecret(ctx, secret.Namespace, secret.Name)
	if err != nil {
		return "", &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("reading: %w", err)}
	}
	value, err := takeover.EncryptUsername(user, content.Data[keyPrivateKey])
	if err != nil {
		return "", &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("encrypting the user with it: %w", err)}
	}
	return value, nil
}

// bare are credentials of that key, and of nothing else.
func (c *Connector) bare(ctx context.Context, secret types.NamespacedName) (credentials, error) {
	current, err := c.readCredentials(ctx, secret)
	if err != nil || len(current.identities) == 0 {
		return credentials{}, err
	}
	first := current.identities[0]
	if first.encrypted {
		return credentials{}, &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("key %s is encrypted, and only programs that know its passphrase can use it: "+
			"take the passphrase off and write the key into the Secret again: ssh-keygen -p -N '' -f %[1]s", first.file)}
	}
	first.certificate = nil
	return credentials{id: "the bare key of " + current.id, identities: []identity{first}}, nil
}

// encrypted says whether a private key that can be read cannot be without its passphrase.
func encrypted(pem []byte) bool {
	_, err := ssh.ParsePrivateKey(pem, nil)
	return errors.Is(err, ssh.ErrPassphraseMissing)
}
