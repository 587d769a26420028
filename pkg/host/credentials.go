// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// credential returns the credentials for an instance: those of its Secret, and after them those that the Secret had
// and the host may still accept.
func (c *Connector) credential(ctx context.Context, instance *v1alpha1.WindowsInstance) (credentials, ssh.Credential, error) {
	name, current, err := c.currentCredential(ctx, instance)
	if err != nil {
		return current, ssh.Credential{}, err
	}
	if has(instance, current) {
		return current, c.offered(name, current.sound(), nil, instance), nil
	}
	before, err := c.formerCredentials(ctx, name, current)
	if err != nil {
		return current, ssh.Credential{}, err
	}
	out := c.offered(name, current, before.credentials, instance)
	out.IfRefused = before.missing(instance, name, current)
	return current, out, nil
}

// offered is what the host of an instance is offered now.
func (c *Connector) offered(secret types.NamespacedName, current credentials, former []credentials, instance *v1alpha1.WindowsInstance) ssh.Credential {
	at := c.now()
	out := offered(current, former, instance.Status.Credentials, at)
	out.Remark, out.Warning = current.remark(secret.String(), onHost(instance.Spec.Username), at), current.warning
	return out
}

// has says whether the host of an instance is known to accept a key of its Secret that it is to have, and no other is needed.
func has(instance *v1alpha1.WindowsInstance, current credentials) bool {
	if len(current.identities) == 0 {
		return true
	}
	known := instance.Status.Credentials
	if known == nil {
		return false
	}
	login := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionAuthenticated)
	_, found := current.sound().own(known.KeyFingerprint)
	return found && (login == nil || login.Reason != v1alpha1.ReasonCredentialsRefused)
}

// currentCredential finds the credentials of an instance: its own, else those of its
// pool, else the cluster-wide key.
func (c *Connector) currentCredential(ctx context.Context, instance *v1alpha1.WindowsInstance) (types.NamespacedName, credentials, error) {
	name, err := c.credentialName(ctx, instance)
	if err != nil {
		return name, credentials{}, err
	}
	current, err := c.readCredentials(ctx, name)
	return name, current, err
}

// readCredentials reads the credentials that a Secret has now.
func (c *Connector) readCredentials(ctx context.Context, name types.NamespacedName) (credentials, error) {
	current, _, err := c.readSecret(ctx, name)
	return current, err
}

// readSecret is readCredentials, and the data that they were read from.
func (c *Connector) readSecret(ctx context.Context, name types.NamespacedName) (credentials, map[string][]byte, error) {
	secret, unread, err := c.read(ctx, name)
	switch {
	case unread:
		return credentials{}, nil, &CredentialsError{Secret: name.String(), Unread: true, Err: err}
	case apierrors.IsNotFound(err):
		return credentials{}, nil, &CredentialsError{Secret: name.String(), Err: errors.New("not found: create it with the key private-key.pem")}
	case apierrors.IsForbidden(err):
		return credentials{}, nil, &CredentialsError{Secret: name.String(), Err: errors.New("may not be read: " + c.allowReading(name))}
	case err != nil:
		return credentials{}, nil, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("reading: %w", err)}
	}
	current, err := c.credentials.parse(secret.Data)
	if err != nil {
		return credentials{}, nil, &CredentialsError{Secret: name.String(), Err: err}
	}
	named := CompromisedKeys(secret.Annotations)
	if len(current.identities) > 1 { // else there is nothing to log in with in the place of one
		kept, err := c.readKept(ctx, name.Namespace)
		if err != nil {
			return credentials{}, nil, err
		}
		named = append(named, CompromisedKeys(kept.Annotations)...)
	}
	return current.withCompromised(name, named), secret.Data, nil
}

// allowReading is what lets both programs read a Secret. In their own namespace they read Secrets by name, because others are
// there that are not for them.
func (c *Connector) allowReading(secret types.NamespacedName) string {
	if secret.Namespace != c.options.ClusterCredentials.Namespace {
		return fmt.Sprintf("bind the ClusterRole windows-credentials-reader in namespace %s to our service account", secret.Namespace)
	}
	return "let both programs read it: " + AllowReadingCommand(secret)
}

// AllowReadingCommand is the command that lets both programs read a Secret of their own namespace.
func AllowReadingCommand(secret types.NamespacedName) string {
	return fmt.Sprintf("kubectl create role windows-secret-%[1]s -n %[2]s --verb=get --resource=secrets --resource-name=%[1]s && "+
		"kubectl create rolebinding windows-secret-%[1]s -n %[2]s --role=windows-secret-%[1]s --serviceaccount=%[2]s:windows-apiserver --serviceaccount=%[2]s:windows-controller", secret.Name, secret.Namespace)
}

// readKept reads the Secret with the copies of a namespace. That there is none is no error, nor that it may not be read: the
// Secrets themselves may be all that is needed.
func (c *Connector) readKept(ctx context.Context, namespace string) (*corev1.Secret, error) {
	name := types.NamespacedName{Namespace: namespace, Name: KeptSecret}
	kept, unread, err := c.read(ctx, name)
	switch {
	case unread:
		return nil, &CredentialsError{Secret: name.String(), Unread: true, Err: err}
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return &corev1.Secret{}, nil
	case err != nil:
		return nil, &CredentialsError{Secret: name.String(), Err: fmt.Errorf("reading: %w", err)}
	}
	return kept, nil
}

// former is what was kept of a Secret, newest first.
type former struct {
	// credentials are those that it had before, without the keys that it has now.
	credentials []credentials
	// keys are the keys that it had before, also those with which nobody is to log in any more.
	keys []Key
	// kept are the fingerprints of those that it has now and that were kept, too.
	kept []string
}

// missing says, for a host that refuses what it is offered, which key it has accepted last, of which there is no copy any more. It is so
// where another Secret is named than before: copies are of one Secret each. Empty: there is no such key.
func (f former) missing(instance *v1alpha1.WindowsInstance, secret types.NamespacedName, current credentials) string {
	known := instance.Status.Credentials
	if known == nil || known.KeyFingerprint == "" {
		return ""
	}
	_, own := current.own(known.KeyFingerprint)
	if own || slices.ContainsFunc(f.keys, func(k Key) bool { return k.Fingerprint() == known.KeyFingerprint }) {
		return ""
	}
	return fmt.Sprintf("It has accepted key %s before, which neither Secret %s has nor the copies of its former keys. If another Secret was named since then, write that key into this one as well, as private-key-old.pem; "+
		"it can be taken away when there is a copy of it, and the host gets private-key.pem then.", known.KeyFingerprint, secret)
}

// formerCredentials is what was kept of a Secret.
func (c *Connector) formerCredentials(ctx context.Context, name types.NamespacedName, current credentials) (former, error) {
	var out former
	secret, err := c.readKept(ctx, name.Namespace)
	if err != nil {
		return out, err
	}
	kept, err := ParseKept(secret.Data[name.Name])
	if err != nil {
		return out, &CredentialsError{Secret: name.Namespace + "/" + KeptSecret, Err: fmt.Errorf("key %s: %w", name.Name, err)}
	}
	for _, k := range kept.Credentials {
		if err := ctx.Err(); err != nil {
			return out, &CredentialsError{Secret: name.Namespace + "/" + KeptSecret, Err: err}
		}
		if !k.LogsIn() {
			if key, err := ParseKey(k.PublicKey); err == nil {
				if _, again := current.own(key.Fingerprint()); !again {
					out.keys = append(out.keys, key)
				}
			}
			continue
		}
		credential, err := c.credentials.parse(k.Data)
		if err != nil {
			continue // what cannot be used is of no help
		}
		for _, i := range credential.identities {
			if _, again := current.own(i.fingerprint()); again {
				out.kept = append(out.kept, i.fingerprint())
			} else {
				out.keys = append(out.keys, i.key())
			}
		}
		if had := credential.without(current); len(had.identities) > 0 || len(credential.identities) == 0 {
			out.credentials = append(out.credentials, had)
		}
	}
	return out, nil
}

// offered are current credentials and former ones, as they are tried at a time: what a host has accepted last comes first, but
// for a key that is to be replaced, before which the first one of the Secret is tried. Further keys of the Secret follow, then
// those of it that are compromised, then other former ones.
func offered(current credentials, former []credentials, known *v1alpha1.CredentialsStatus, at time.Time) ssh.Credential {
	out := ssh.Credential{ID: current.id, Password: current.password}
	tried := slices.Clone(current.identities)
	for _, f := range former {
		tried = append(tried, f.identities...)
		// A password is tried once: another one that is wrong brings an account closer to being locked.
		if out.Password == "" {
			out.Password = f.password
		}
	}
	sound := current.sound()
	rank := func(i identity) int {
		fingerprint := i.fingerprint()
		_, own := current.own(fingerprint)
		_, good := sound.own(fingerprint)
		last := known != nil && known.KeyFingerprint == fingerprint
		switch {
		case good && last:
			return 0
		case good && sound.identities[0].fingerprint() == fingerprint:
			return 1
		case last:
			return 2
		case good:
			return 3
		case own:
			return 4
		}
		return 5
	}
	slices.SortStableFunc(tried, func(a, b identity) int { return rank(a) - rank(b) })
	for _, i := range tried {
		places := maxOffered - len(out.Signers)
		if places == 0 {
			break
		}
		// With one place left it is the key, the last one, rather than its certificate: more hosts accept that.
		signers := i.signers(at)
		signers = signers[max(0, len(signers)-places):]
		out.Signers = append(out.Signers, signers...)
		if _, good := sound.own(i.fingerprint()); !good {
			out.ID += "+" + i.of
		}
		// A connection that was made with a certificate is not used any more when that has expired.
		if i.certificate != nil && !i.certified(at) {
			out.ID += "-" + i.fingerprint()
		}
	}
	return out
}

// CredentialCache keeps what was made of Secrets: decrypting a private key is slow on
// purpose, also with a wrong passphrase. The zero value is empty. It is safe for concurrent use.
type CredentialCache struct {
	mu     sync.Mutex
	byID   map[string]credentials // by digest of the Secret's data
	failed map[string]error       // the same
}

// maxCredentials bounds the cache, and the failures in it. There are as many as there are Secrets for hosts.
const maxCredentials = 256

func (c *CredentialCache) parse(data map[string][]byte) (credentials, error) {
	id := digest(data)
	c.mu.Lock()
	parsed, known := c.byID[id]
	err, failed := c.failed[id]
	c.mu.Unlock()
	if known || failed {
		return parsed, err
	}
	parsed, err = parseCredentials(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		remember(&c.failed, id, err)
		return credentials{}, err
	}
	remember(&c.byID, id, parsed)
	return parsed, nil
}

// Expires is when the first of the certificates in the data of a Secret expires, of those of the keys with fingerprints that are needed; nil: all
// are. Zero: none does, or nobody can log in with the data.
func (c *CredentialCache) Expires(data map[string][]byte, needed func(fingerprint string) bool) time.Time {
	parsed, err := c.parse(data)
	if err != nil {
		return time.Time{}
	}
	return parsed.expires(needed)
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
	if instance.Spec.CredentialsSecretRef != nil {
		return SecretOf(instance, nil, c.options.ClusterCredentials), nil
	}
	pool, err := c.poolOf(ctx, instance)
	if err != nil {
		return types.NamespacedName{}, err
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
