// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Keys of a Secret with credentials. The first is that of the Windows Machine
// Config Operator, whose Secret cloud-private-key can be used unchanged.
const (
	keyPrivateKey = "private-key.pem"
	keyPassphrase = "passphrase"
	keyPassword   = "password"
)

// credential finds the credentials of an instance: its own, else those of its
// pool, else the cluster-wide key.
func (c *Connector) credential(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Credential, error) {
	name, err := c.credentialName(ctx, instance)
	if err != nil {
		return ssh.Credential{}, err
	}
	data, err := c.options.ReadSecret(ctx, name.Namespace, name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: errors.New("not found: create it with the key private-key.pem")}
	case apierrors.IsForbidden(err):
		return ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("may not be read: bind the ClusterRole windows-credentials-reader in namespace %s to our service account", name.Namespace)}
	case err != nil:
		return ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("reading: %w", err)}
	}
	credential, err := c.credentials.parse(data)
	if err != nil {
		return ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: err}
	}
	return credential, nil
}

// credentialCache keeps what was made of Secrets: decrypting a private key is slow on
// purpose. It is safe for concurrent use.
type credentialCache struct {
	mu   sync.Mutex
	byID map[string]ssh.Credential // by digest of the Secret's data
}

// maxCredentials bounds the cache. There are as many as there are Secrets for hosts.
const maxCredentials = 256

func (c *credentialCache) parse(data map[string][]byte) (ssh.Credential, error) {
	id := digest(data)
	c.mu.Lock()
	credential, ok := c.byID[id]
	c.mu.Unlock()
	if ok {
		return credential, nil
	}
	credential, err := parseCredential(data)
	if err != nil {
		return ssh.Credential{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= maxCredentials {
		// Secrets that are gone must not stay for ever; what is in use is back at once.
		c.byID = map[string]ssh.Credential{}
	}
	c.byID[id] = credential
	return credential, nil
}

func (c *Connector) credentialName(ctx context.Context, instance *v1alpha1.WindowsInstance) (types.NamespacedName, error) {
	if ref := instance.Spec.CredentialsSecretRef; ref != nil {
		return types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}, nil
	}
	if ref := instance.Spec.PoolRef; ref != nil {
		pool, err := c.options.ReadPool(ctx, instance.Namespace, ref.Name)
		// The cluster-wide key does not replace that of a pool: a user who may delete
		// the pool could have it used for hosts that it is not for.
		if apierrors.IsNotFound(err) {
			return types.NamespacedName{}, &CredentialsError{
				Secret: fmt.Sprintf("of pool %s/%s", instance.Namespace, ref.Name),
				Err:    errors.New("the pool does not exist: create it, or remove spec.poolRef from the instance"),
			}
		}
		if err != nil {
			return types.NamespacedName{}, fmt.Errorf("reading pool %s: %w", ref.Name, err)
		}
		if pool.Spec.Template.CredentialsSecretRef != nil {
			return types.NamespacedName{Namespace: instance.Namespace, Name: pool.Spec.Template.CredentialsSecretRef.Name}, nil
		}
	}
	return c.options.ClusterCredentials, nil
}

// parseCredential reads the data of a Secret.
func parseCredential(data map[string][]byte) (ssh.Credential, error) {
	credential := ssh.Credential{ID: digest(data), Password: string(data[keyPassword])}
	pem := data[keyPrivateKey]
	if len(pem) == 0 && credential.Password == "" {
		return ssh.Credential{}, fmt.Errorf("has neither the key %s nor the key %s", keyPrivateKey, keyPassword)
	}
	if len(pem) > 0 {
		signer, err := ssh.ParsePrivateKey(pem, data[keyPassphrase])
		if err != nil {
			return ssh.Credential{}, fmt.Errorf("key %s: %w", keyPrivateKey, err)
		}
		credential.Signers = []ssh.Signer{signer}
	}
	return credential, nil
}

// PublicKey returns the public key of the credentials in the data of a Secret: what hosts must have
// authorized to be logged in to with them.
func PublicKey(data map[string][]byte) (Key, error) {
	credential, err := parseCredential(data)
	if err != nil {
		return Key{}, err
	}
	if len(credential.Signers) == 0 {
		return Key{}, fmt.Errorf("has no key %s", keyPrivateKey)
	}
	return KeyOf(credential.Signers[0].PublicKey()), nil
}

// digest names the content of a Secret, so that connections made with an old
// content are not used with a new one.
func digest(data map[string][]byte) string {
	h := sha256.New()
	for _, key := range []string{keyPassphrase, keyPassword, keyPrivateKey} {
		// The length before each part keeps parts from running into each other.
		fmt.Fprintf(h, "%d:", len(data[key]))
		h.Write(data[key])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
