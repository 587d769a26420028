// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
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
	bare, _, err := c.bare(ctx, secret)
	if err != nil || len(bare.identities) == 0 {
		return Key{}, err
	}
	return bare.identities[0].key(), nil
}

// LoginBare is [Connector.Login] with nothing but that key, whatever the credentials of the instance are, on a connection that is
// made for it. A host that refuses the key is no error: there is no Peer then. If its bastion
// refuses the login that is an error, as the host was not asked.
func (c *Connector) LoginBare(ctx context.Context, instance *v1alpha1.WindowsInstance, secret types.NamespacedName) (*Peer, error) {
	bare, _, err := c.bare(ctx, secret)
	if err != nil {
		return nil, err
	}
	target, err := c.way(ctx, instance)
	if err != nil {
		return nil, err
	}
	target.Credential = offered(bare, nil, nil, c.now())
	target.Owner += ", with the bare key"
	defer c.options.Pool.Forget(target.Owner) // the next one finds it out again
	met, err := c.options.Pool.Login(ctx, target)
	if refused, ok := ssh.AsError(err); ok && refused.Reason == ssh.ReasonCredentialsRefused && refused.Layer != ssh.LayerBastion {
		return nil, nil //nolint:nilnil // it is an answer
	}
	if err != nil {
		return nil, err
	}
	peer := peerOf(target, met)
	return &peer, nil
}

// EncryptUsername returns the user of a host as WMCO reads it on its Node: encrypted with private-key.pem of a Secret, which
// must not be encrypted itself, as the passphrase. Errors are [CredentialsError]s.
func (c *Connector) EncryptUsername(ctx context.Context, secret types.NamespacedName, user string) (string, error) {
	bare, data, err := c.bare(ctx, secret)
	switch {
	case err != nil:
		return "", err
	case len(bare.identities) == 0:
		return "", &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("has no key %s", keyPrivateKey)}
	}
	value, err := takeover.EncryptUsername(user, data[keyPrivateKey])
	if err != nil {
		return "", &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("encrypting the user with it: %w", err)}
	}
	return value, nil
}

// bare are credentials of that key, and of nothing else, and the data of the Secret that it was read from.
func (c *Connector) bare(ctx context.Context, secret types.NamespacedName) (credentials, map[string][]byte, error) {
	current, data, err := c.readSecret(ctx, secret)
	if err != nil || len(current.identities) == 0 {
		return credentials{}, nil, err
	}
	first := current.identities[0]
	if first.encrypted {
		return credentials{}, nil, &CredentialsError{Secret: secret.String(), Err: fmt.Errorf("key %s is encrypted, and only programs that know its passphrase can use it: "+
			"take the passphrase off and write the key into the Secret again: ssh-keygen -p -N '' -f %[1]s", first.file)}
	}
	first.certificate = nil
	return credentials{id: "the bare key of " + current.id, identities: []identity{first}}, data, nil
}

// encrypted says whether a private key that can be read cannot be without its passphrase.
func encrypted(pem []byte) bool {
	_, err := ssh.ParsePrivateKey(pem, nil)
	return errors.Is(err, ssh.ErrPassphraseMissing)
}
