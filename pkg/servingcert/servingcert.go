// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package servingcert has the serving certificate of windows-apiserver where nobody else makes one:
// in a Secret that all replicas share. It is made, renewed and handed to the server without a
// restart, and kube-apiserver trusts it before it is used. A Secret of others is served and never
// written.
package servingcert

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// SecretName is the name of the Secret, of type kubernetes.io/tls. If it has a ca.crt, the
	// certificate is verified with that.
	SecretName = "windows-apiserver-serving-cert"
	// A Secret with this label is ours; all others are left as they are.
	managedByLabel, managedBy = "app.kubernetes.io/managed-by", "windows-apiserver"
	// interval is how often the Secret is read.
	interval = 30 * time.Second
)

// Options for [New].
type Options struct {
	Kube kubernetes.Interface
	// Namespace has the Secret, DNSName is what the certificate is for.
	Namespace, DNSName string
	// Replica tells this process from others that write the Secret.
	Replica string
	// Trust has everybody who asks the server trust a bundle, and says whether they do already.
	Trust func(ctx context.Context, bundle []byte) (already bool, err error)
	Clock clock.WithTicker
}

// Certificate is the one to serve.
type Certificate struct {
	Options
	current   atomic.Pointer[content]
	listeners []dynamiccertificates.Listener
}

var (
	_ dynamiccertificates.CertKeyContentProvider = &Certificate{}
	_ dynamiccertificates.ControllerRunner       = &Certificate{}
)

// New returns the certificate that is in the Secret, which is made if there is none.
func New(ctx context.Context, o Options) (*Certificate, error) {
	c := &Certificate{Options: o}
	return c, c.RunOnce(ctx)
}

// Name says in logs what this is.
func (c *Certificate) Name() string { return "Secret " + c.Namespace + "/" + SecretName }

// CurrentCertKeyContent returns what to serve.
func (c *Certificate) CurrentCertKeyContent() (cert, key []byte) {
	current := c.current.Load()
	return current.cert, current.key
}

// Bundle is what verifies the certificate; nil if nothing is known that does.
func (c *Certificate) Bundle() []byte { return c.current.Load().bundle }

// AddListener tells somebody of changes. It must not be called after Run.
func (c *Certificate) AddListener(listener dynamiccertificates.Listener) {
	c.listeners = append(c.listeners, listener)
}

// Run follows the Secret until ctx is done. What is served stays when that fails.
func (c *Certificate) Run(ctx context.Context, _ int) {
	ticker := c.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if err := c.RunOnce(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Following the serving certificate; trying again", "interval", interval)
		}
	}
}

// RunOnce serves what is in the Secret. A certificate that is not trusted yet takes the place of
// another one the next time.
func (c *Certificate) RunOnce(ctx context.Context) error {
	var found *content
	err := retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() (err error) {
		found, err = c.ensure(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	trusted := true
	if len(found.bundle) > 0 {
		if trusted, err = c.Trust(ctx, found.bundle); err != nil {
			return err
		}
	}
	before := c.current.Load()
	if before != nil && !trusted {
		return nil
	}
	c.current.Store(found)
	if before == nil || bytes.Equal(before.cert, found.cert) {
		return nil
	}
	klog.InfoS("Serving another certificate", "from", c.Name())
	for _, listener := range c.listeners {
		listener.Enqueue()
	}
	return nil
}

// ensure returns what is in the Secret, after it was made or renewed if that is up to us.
func (c *Certificate) ensure(ctx context.Context) (*content, error) {
	var served []byte
	if current := c.current.Load(); current != nil {
		served = current.cert
	}
	secrets := c.Kube.CoreV1().Secrets(c.Namespace)
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return c.create(ctx, served)
	}
	if err != nil {
		return nil, err
	}
	found := contentOf(secret.Data)
	if secret.Labels[managedByLabel] != managedBy {
		if err := found.check(); err != nil {
			return nil, fmt.Errorf("it is not ours, and cannot be served: %w; correct it, or delete it so that one is made", err)
		}
		return found, nil
	}
	renewed, err := renew(found, c.DNSName, c.Clock.Now(), served)
	if err != nil || renewed == found {
		return found, err
	}
	secret.Data = renewed.data()
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	return renewed, err
}

// create makes the Secret. It is applied on the server, because the right to create can be given for one name
// only then; what another replica has made at the same moment is a conflict.
func (c *Certificate) create(ctx context.Context, served []byte) (*content, error) {
	made, err := generate(c.DNSName, c.Clock.Now(), served)
	if err != nil {
		return nil, err
	}
	secret := coreapply.Secret(SecretName, c.Namespace).WithType(corev1.SecretTypeTLS).WithData(made.data()).
		WithLabels(map[string]string{managedByLabel: managedBy})
	_, err = c.Kube.CoreV1().Secrets(c.Namespace).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: c.Replica})
	return made, err
}
