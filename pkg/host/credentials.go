// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// credentialKeys are those that credentials are read from.
var credentialKeys = []string{keyPassphrase, keyPassword, keyPrivateKey}

// maxOffered bounds how many keys a host is offered: OpenSSH hangs up after six that it does not accept.
const maxOffered = 5

// credential returns the credentials for an instance: those of its Secret, and after them those that the Secret had
// and the host may still accept.
func (c *Connector) credential(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Credential, error) {
	name, current, err := c.currentCredential(ctx, instance)
	if err != nil || has(instance, current) {
		return current, err
	}
	return c.withFormer(ctx, name, current, instance)
}

// has says whether the host of an instance is known to accept the key that it is to have, and no other is needed.
func has(instance *v1alpha1.WindowsInstance, current ssh.Credential) bool {
	known := instance.Status.Credentials
	login := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
	return len(current.Signers) == 0 ||
		known != nil && known.KeyFingerprint == fingerprintOf(current) && (login == nil || login.Reason != v1alpha1.ReasonCredentialsRefused)
}

// fingerprintOf is that of the key of a credential. Empty: it has none.
func fingerprintOf(credential ssh.Credential) string {
	if len(credential.Signers) == 0 {
		return ""
	}
	return ssh.Fingerprint(credential.Signers[0].PublicKey())
}

// currentCredential finds the credentials of an instance: its own, else those of its
// pool, else the cluster-wide key.
func (c *Connector) currentCredential(ctx context.Context, instance *v1alpha1.WindowsInstance) (types.NamespacedName, ssh.Credential, error) {
	name, err := c.credentialName(ctx, instance)
	if err != nil {
		return name, ssh.Credential{}, err
	}
	data, err := c.options.ReadSecret(ctx, name.Namespace, name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return name, ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: errors.New("not found: create it with the key private-key.pem")}
	case apierrors.IsForbidden(err):
		return name, ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("may not be read: bind the ClusterRole windows-credentials-reader in namespace %s to our service account", name.Namespace)}
	case err != nil:
		return name, ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("reading: %w", err)}
	}
	credential, err := c.credentials.parse(data)
	if err != nil {
		return name, ssh.Credential{}, &CredentialsError{Secret: name.String(), Err: err}
	}
	return name, credential, nil
}

// former is what was kept of a Secret, newest first.
type former struct {
	// credentials are those that it had before.
	credentials []ssh.Credential
	// keys are the keys that it had before, also those with which nobody is to log in any more.
	keys []Key
	// current says that what it has now was kept, too.
	current bool
}

// formerCredentials is what was kept of a Secret. That there is nothing is no error, nor that it may not be read: the Secret
// itself may be all that is needed.
func (c *Connector) formerCredentials(ctx context.Context, name types.NamespacedName, current ssh.Credential) (former, error) {
	var out former
	data, err := c.options.ReadSecret(ctx, name.Namespace, KeptSecret)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return out, nil
	}
	if err != nil {
		return out, &CredentialsError{Secret: name.Namespace + "/" + KeptSecret, Err: fmt.Errorf("reading: %w", err)}
	}
	kept, err := ParseKept(data[name.Name])
	if err != nil {
		return out, &CredentialsError{Secret: name.Namespace + "/" + KeptSecret, Err: fmt.Errorf("key %s: %w", name.Name, err)}
	}
	for _, k := range kept.Credentials {
		if err := ctx.Err(); err != nil {
			return out, &CredentialsError{Secret: name.Namespace + "/" + KeptSecret, Err: err}
		}
		if !k.LogsIn() {
			if key, err := ParseKey(k.PublicKey); err == nil && key.Fingerprint() != fingerprintOf(current) {
				out.keys = append(out.keys, key)
			}
			continue
		}
		credential, err := c.credentials.parse(k.Data)
		switch {
		case err != nil: // what cannot be used is of no help
		case fingerprintOf(credential) == fingerprintOf(current):
			out.current = true
		default:
			out.credentials = append(out.credentials, credential)
			for _, s := range credential.Signers {
				out.keys = append(out.keys, KeyOf(s.PublicKey()))
			}
		}
	}
	return out, nil
}

// withFormer adds former credentials to the current ones: the key that the host had last comes first.
func (c *Connector) withFormer(ctx context.Context, name types.NamespacedName, current ssh.Credential, instance *v1alpha1.WindowsInstance) (ssh.Credential, error) {
	former, err := c.formerCredentials(ctx, name, current)
	if err != nil {
		return ssh.Credential{}, err
	}
	return offered(current, former.credentials, instance.Status.Credentials), nil
}

// offered are current credentials and, after them, former ones.
func offered(current ssh.Credential, former []ssh.Credential, known *v1alpha1.CredentialsStatus) ssh.Credential {
	former = slices.Clone(former)
	slices.SortStableFunc(former, func(a, b ssh.Credential) int {
		had := func(c ssh.Credential) int {
			if known != nil && len(c.Signers) > 0 && known.KeyFingerprint == fingerprintOf(c) {
				return 0
			}
			return 1
		}
		return cmp.Compare(had(a), had(b))
	})
	out := ssh.Credential{ID: current.ID, Signers: slices.Clone(current.Signers), Password: current.Password}
	for _, f := range former {
		if len(out.Signers)+len(f.Signers) <= maxOffered {
			out.Signers = append(out.Signers, f.Signers...)
			out.ID += "+" + f.ID
		}
		// A password is tried once: another one that is wrong brings an account closer to being locked.
		if out.Password == "" && f.Password != "" {
			out.Password = f.Password
		}
	}
	return out
}

// CredentialCache keeps what was made of Secrets: decrypting a private key is slow on
// purpose, also with a wrong passphrase. The zero value is empty. It is safe for concurrent use.
type CredentialCache struct {
	mu     sync.Mutex
	byID   map[string]ssh.Credential // by digest of the Secret's data
	failed map[string]error          // the same
}

// maxCredentials bounds the cache, and the failures in it. There are as many as there are Secrets for hosts.
const maxCredentials = 256

func (c *CredentialCache) parse(data map[string][]byte) (ssh.Credential, error) {
	id := digest(data)
	c.mu.Lock()
	credential, known := c.byID[id]
	err, failed := c.failed[id]
	c.mu.Unlock()
	if known || failed {
		return credential, err
	}
	credential, err = parseCredential(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		remember(&c.failed, id, err)
		return ssh.Credential{}, err
	}
	remember(&c.byID, id, credential)
	return credential, nil
}

// remember adds to a part of the cache. When that is full it begins again: Secrets that are gone must not stay for ever, and
// what is in use is back at once.
func remember[T any](in *map[string]T, id string, value T) {
	if *in == nil || len(*in) >= maxCredentials {
		*in = map[string]T{}
	}
	(*in)[id] = value
}

func (c *Connector) credentialName(ctx context.Context, instance *v1alpha1.WindowsInstance) (types.NamespacedName, error) {
	ref := instance.Spec.PoolRef
	if instance.Spec.CredentialsSecretRef != nil || ref == nil {
		return SecretOf(instance, nil, c.options.ClusterCredentials), nil
	}
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
	return SecretOf(instance, pool, c.options.ClusterCredentials), nil
}

// SecretOf is the Secret with the credentials of an instance: its own, else that of its pool, which is nil where
// the instance has none, else the cluster-wide one.
func SecretOf(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, cluster types.NamespacedName) types.NamespacedName {
	if ref := instance.Spec.CredentialsSecretRef; ref != nil {
		return types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}
	}
	if pool != nil && pool.Spec.Template.CredentialsSecretRef != nil {
		return types.NamespacedName{Namespace: instance.Namespace, Name: pool.Spec.Template.CredentialsSecretRef.Name}
	}
	return cluster
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
	for _, key := range credentialKeys {
		// The length before each part keeps parts from running into each other.
		fmt.Fprintf(h, "%d:", len(data[key]))
		h.Write(data[key])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
