// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DigestKeySecret is the Secret in the namespace of the operator with the key of the
// digests by which changes of secret contents are seen. It is made once: with another key
// every host has another revision, and gets all its secrets again.
const DigestKeySecret = "windows-digest-key"

const (
	// digestKeyKey is the key in that Secret.
	digestKeyKey = "key"
	// digestKeyBytes is how long the key is.
	digestKeyBytes = 32
)

// EnsureDigestKey makes the Secret with the key of digests if there is none. One
// that exists is left as it is, also when another process created it at the same time.
func EnsureDigestKey(ctx context.Context, c client.Client, namespace string) error {
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: DigestKeySecret}, secret)
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the key of digests: %w", err)
	}
	key := make([]byte, digestKeyBytes)
	_, _ = rand.Read(key) // it never fails
	immutable := true
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DigestKeySecret},
		Type:       corev1.SecretTypeOpaque,
		Immutable:  &immutable,
		Data:       map[string][]byte{digestKeyKey: key},
	}
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the key of digests: %w", err)
	}
	return nil
}
