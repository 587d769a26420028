// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fillToken stands in for the token controller of Kubernetes, which fills Secrets of service accounts. What it fills in
// ends after a while; those of the real one do not.
func fillToken(ctx context.Context, c client.Client, secret *corev1.Secret) error {
	if secret.Type != corev1.SecretTypeServiceAccountToken || len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 {
		return nil
	}
	account := &corev1.ServiceAccount{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]}, account); err != nil {
		return err
	}
	root := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: "kube-root-ca.crt"}, root); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	before := client.MergeFrom(secret.DeepCopy())
	secret.Data = map[string][]byte{
		corev1.ServiceAccountTokenKey: []byte(request.Status.Token), corev1.ServiceAccountRootCAKey: []byte(root.Data["ca.crt"]),
		corev1.ServiceAccountNamespaceKey: []byte(secret.Namespace),
	}
	return c.Patch(ctx, secret, before)
}
