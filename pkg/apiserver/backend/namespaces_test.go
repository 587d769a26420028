// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A namespace that is gone counts as deleted; one that cannot be read counts as nothing.
func TestNamespaceDeleted(t *testing.T) {
	since := time.Now().Truncate(time.Second)
	kube := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stays"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "goes", DeletionTimestamp: new(metav1.NewTime(since)), Finalizers: []string{"example.com/f"}}},
	)
	deleted := NamespaceDeleted(kube)
	for name, want := range map[string]time.Time{"stays": {}, "goes": since, "gone": time.Unix(0, 0)} {
		if got, err := deleted(t.Context(), name); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	// What a proxy in front of kube-apiserver answers says nothing about a namespace.
	proxy := apierrors.NewGenericServerResponse(404, "get", corev1.Resource("namespaces"), "gone", "404 page not found", 0, true)
	for _, away := range []error{errors.New("away"), proxy} {
		kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
		if got, err := deleted(t.Context(), "gone"); !errors.Is(err, away) || !got.IsZero() {
			t.Errorf("%s, %v", got, err)
		}
	}
}
