// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	encoding "encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations by which the service CA is asked, see github.com/openshift/service-ca-operator.
const (
	servingCertAnnotation  = "service.beta.openshift.io/serving-cert-secret-name"
	originAnnotation       = "service.beta.openshift.io/originating-service-name"
	injectBundleAnnotation = "service.beta.openshift.io/inject-cabundle"
)

// ServiceCA stands in for OpenShift's service CA. It makes the Secret that an annotation of a Service names, with
// a certificate for the names of that Service, removes from it what it has not written, and writes what verifies it into APIServices whose annotation asks
// for that. The Secret has no CA; the real one rotates both, and injects the bundle into more kinds.
type ServiceCA struct {
	// Bundle verifies what Issue issues, in PEM. Required.
	Bundle []byte
	// Issue issues a certificate with its key for the names of a Service, in PEM. Required.
	Issue func(namespace, service string) (cert, key []byte, err error)
}

// sign makes the Secret of a Service.
func (s ServiceCA) sign(ctx context.Context, c client.Client, service *corev1.Service) error {
	name := service.Annotations[servingCertAnnotation]
	if name == "" {
		return nil
	}
	key := client.ObjectKey{Namespace: service.Namespace, Name: name}
	if err := c.Get(ctx, key, &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
		return err
	}
	cert, private, err := s.Issue(service.Namespace, service.Name)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{originAnnotation: service.Name},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: private},
	}
	if err := ctrl.SetControllerReference(service, secret, c.Scheme()); err != nil {
		return err
	}
	return c.Create(ctx, secret)
}

// purge removes from the Secret of a Service what others have written there.
func (s ServiceCA) purge(ctx context.Context, c client.Client, secret *corev1.Secret) error {
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: secret.Namespace, Name: secret.Annotations[originAnnotation]}
	if key.Name == "" || len(secret.Data) <= 2 {
		return nil
	}
	if err := c.Get(ctx, key, service); err != nil || service.Annotations[servingCertAnnotation] != secret.Name {
		return client.IgnoreNotFound(err)
	}
	for name := range secret.Data {
		if name != corev1.TLSCertKey && name != corev1.TLSPrivateKeyKey {
			delete(secret.Data, name)
		}
	}
	return c.Update(ctx, secret)
}

// newAPIService is spoken to without its Go type, which is in k8s.io/kube-aggregator.
func newAPIService() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	return object
}

// inject writes the bundle into an APIService.
func (s ServiceCA) inject(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	bundle := encoding.StdEncoding.EncodeToString(s.Bundle)
	if found, _, _ := unstructured.NestedString(object.Object, "spec", "caBundle"); object.GetAnnotations()[injectBundleAnnotation] != "true" || found == bundle {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, bundle, "spec", "caBundle"); err != nil {
		return err
	}
	return c.Update(ctx, object)
}
