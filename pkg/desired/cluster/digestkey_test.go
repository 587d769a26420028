// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
)

func TestEnsureDigestKey(t *testing.T) {
	c := ctrlfake.NewClientBuilder().Build()
	key := func() string {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: cluster.DigestKeySecret}, s); err != nil {
			t.Fatal(err)
		}
		return string(s.Data["key"])
	}
	if err := cluster.EnsureDigestKey(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	first := key()
	if len(first) != 32 {
		t.Fatalf("the key has %d bytes", len(first))
	}
	if err := cluster.EnsureDigestKey(t.Context(), c, namespace); err != nil || key() != first {
		t.Errorf("the key is another one, or %v", err)
	}
	// Another one makes it between the look and the creation.
	race := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewNotFound(corev1.Resource("secrets"), cluster.DigestKeySecret)
	}})
	if err := cluster.EnsureDigestKey(t.Context(), race, namespace); err != nil || key() != first {
		t.Errorf("the key is another one, or %v", err)
	}
	// And another cluster has another one.
	other := ctrlfake.NewClientBuilder().Build()
	if err := cluster.EnsureDigestKey(t.Context(), other, namespace); err != nil {
		t.Fatal(err)
	}
	c = other
	if key() == first {
		t.Error("two clusters have the same key")
	}
	away := errors.New("connection refused")
	broken := interceptor.NewClient(other, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return away
	}})
	if err := cluster.EnsureDigestKey(t.Context(), broken, namespace); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
