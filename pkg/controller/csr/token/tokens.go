// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package token

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
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

// GroupOf is the group that the host of an instance, and no other one, is in while it joins.
func GroupOf(instance *v1alpha1.WindowsInstance) string { return Group + ":" + string(instance.UID) }

// Tokens makes tokens. It may be used concurrently for different instances; calls for one
// instance have to come one after the other.
type Tokens struct {
	secrets typedcorev1.SecretInterface
	clock   clock.PassiveClock

	mu sync.Mutex // guards issued
	// issued has the tokens that this process made and has not revoked, by the UID of the instance.
	issued map[types.UID]issued
}

// issued is a token that was made.
type issued struct {
	token      string
	secret     types.UID // of its Secret
	expiration time.Time
}

// New returns Tokens that are kept in the cluster of kube.
//
// RBAC it needs, in namespace kube-system:
//
//	""   secrets   create delete
func New(kube kubernetes.Interface, c clock.PassiveClock) *Tokens {
	return &Tokens{secrets: kube.CoreV1().Secrets(metav1.NamespaceSystem), clock: c, issued: map[types.UID]issued{}}
}

// Issue returns a token for the host of an instance, which is valid for [MinValidity] at
// least. As long as the one before of this process is, it is that one again; otherwise the one
// before is valid no more. The token is a secret.
func (t *Tokens) Issue(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	if instance.UID == "" {
		return "", errors.New("issuing a bootstrap token for the host: the instance has no UID")
	}
	now := t.clock.Now()
	if last := t.known(instance); last.expiration.Sub(now) >= MinValidity {
		return last.token, nil
	}
	expiration := now.Add(Lifetime)
	secret, err := newSecret(instance, expiration)
	if err != nil {
		return "", fmt.Errorf("making a bootstrap token for the host: %w", err)
	}
	created, err := t.create(ctx, secret)
	if err != nil {
		return "", fmt.Errorf("issuing a bootstrap token for the host: %w", err)
	}
	next := issued{token: tokenOf(secret), secret: created.UID, expiration: expiration}
	t.mu.Lock()
	defer t.mu.Unlock()
	// Those of instances that went without a revocation are of no use any more.
	maps.DeleteFunc(t.issued, func(_ types.UID, i issued) bool { return !i.expiration.After(now) })
	t.issued[instance.UID] = next
	return next.token, nil
}

// create creates a Secret in the place of the one before, if there is one: that one is about to
// expire, or another process has made it, and nobody knows it any more.
func (t *Tokens) create(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	created, err := t.secrets.Create(ctx, secret, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	if err := t.secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("replacing Secret %s/%s of the one before: %w", secret.Namespace, secret.Name, err)
	}
	return t.secrets.Create(ctx, secret, metav1.CreateOptions{})
}

// Revoke takes the token of the host of an instance away, whoever made it. That there is none is
// no error.
func (t *Tokens) Revoke(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	var options metav1.DeleteOptions
	if last := t.known(instance); last.secret != "" {
		// One that another process has made meanwhile is in use.
		options.Preconditions = &metav1.Preconditions{UID: &last.secret}
	}
	err := t.secrets.Delete(ctx, secretName(instance.UID), options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("revoking the bootstrap token of the host: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.issued, instance.UID)
	return nil
}

// known returns the token of an instance that this process made and has not revoked; an empty one if
// there is none.
func (t *Tokens) known(instance *v1alpha1.WindowsInstance) issued {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.issued[instance.UID]
}
