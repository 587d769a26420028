// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	// Group is the group that hosts are in while they join, besides system:bootstrappers.
	Group = bootstrapapi.BootstrapDefaultGroup + ":windows-instances"
	// Lifetime is how long a token is valid.
	Lifetime = time.Hour
	// MinValidity is how long a token that [Tokens.Issue] returns is valid at least, so
	// that a host has the time to use it.
	MinValidity = 15 * time.Minute
)

// tries bounds how often a Secret that others change at the same time is read again.
const tries = 3

// ErrForeign is wrapped when the name of the Secret of an instance is taken by one that was
// not made for it. Somebody has to delete that one, or the instance, which then gets
// another name.
var ErrForeign = errors.New("it was not made for this instance")

// Tokens makes tokens. It may be used concurrently.
type Tokens struct {
	secrets typedcorev1.SecretInterface
	clock   clock.PassiveClock
}

// New returns Tokens that are kept in the cluster of kube.
//
// RBAC it needs, in namespace kube-system:
//
//	""   secrets   get create update delete
func New(kube kubernetes.Interface, c clock.PassiveClock) *Tokens {
	return &Tokens{secrets: kube.CoreV1().Secrets(metav1.NamespaceSystem), clock: c}
}

// Issue returns a token for the host of an instance, which is valid for [MinValidity] at
// least. As long as the one before is, it is that one again. The token is a secret.
func (t *Tokens) Issue(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	var err error
	for range tries {
		var token string
		token, err = t.issue(ctx, instance)
		if err == nil {
			return token, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
		// Somebody else changed it meanwhile.
	}
	return "", fmt.Errorf("issuing a bootstrap token for the host: %w", err)
}

func (t *Tokens) issue(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	old, err := t.own(ctx, instance)
	if err != nil {
		return "", err
	}
	if old != nil && t.validFor(old, MinValidity) {
		return tokenOf(old), nil
	}
	if old != nil && old.DeletionTimestamp != nil {
		return "", fmt.Errorf("the Secret %s/%s of the one before is still being deleted", old.Namespace, old.Name)
	}
	wanted, err := newSecret(instance, t.clock.Now().Add(Lifetime))
	if err != nil {
		return "", err
	}
	if old == nil {
		_, err = t.secrets.Create(ctx, wanted, metav1.CreateOptions{})
	} else {
		wanted.UID, wanted.ResourceVersion = old.UID, old.ResourceVersion
		_, err = t.secrets.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return tokenOf(wanted), nil
}

// Revoke takes the token of the host of an instance away. That there is none is no error.
func (t *Tokens) Revoke(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	secret, err := t.own(ctx, instance)
	if errors.Is(err, ErrForeign) {
		return nil // so there is none of this instance
	}
	if err == nil && secret != nil {
		err = t.secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone, and what has its name now is another one
		}
	}
	if err != nil {
		return fmt.Errorf("revoking the bootstrap token of the host: %w", err)
	}
	return nil
}

// User returns the user that the bearer of the token of an instance is. Empty: there is no
// token that is valid.
func (t *Tokens) User(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	secret, err := t.own(ctx, instance)
	switch {
	case errors.Is(err, ErrForeign):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking for the bootstrap token of the host: %w", err)
	case secret == nil || !t.validFor(secret, 0):
		return "", nil
	}
	return bootstrapapi.BootstrapUserPrefix + idOf(instance.UID), nil
}

// own returns the Secret of an instance, nil if there is none.
func (t *Tokens) own(ctx context.Context, instance *v1alpha1.WindowsInstance) (*corev1.Secret, error) {
	if instance.UID == "" {
		return nil, errors.New("the instance has no UID")
	}
	name := bootstraputil.BootstrapTokenSecretName(idOf(instance.UID))
	secret, err := t.secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Secret is an ordinary answer
	}
	if err != nil {
		return nil, err
	}
	if secret.Type != bootstrapapi.SecretTypeBootstrapToken || secret.Annotations[uidAnnotation] != string(instance.UID) {
		return nil, fmt.Errorf("Secret %s/%s exists: %w", metav1.NamespaceSystem, name, ErrForeign)
	}
	return secret, nil
}

// validFor says whether the API server takes the token of a Secret for some time to come.
func (t *Tokens) validFor(secret *corev1.Secret, d time.Duration) bool {
	if secret.DeletionTimestamp != nil || !usable(secret) {
		return false
	}
	expiration, err := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]))
	left := expiration.Sub(t.clock.Now())
	// One that somebody made valid for longer is not good either.
	return err == nil && left > 0 && left >= d && left <= Lifetime
}
