// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNamespaceDeletion deletes a namespace with objects of ours in it. What
// kube-controller-manager asks for meanwhile, and in which content type, is its own.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	// Not newNamespace, which deletes it itself.
	ns := "e2e-namespace-deletion"
	kubectl(t, "create", "namespace", ns).ok(t)
	for i := range 3 {
		kubectlIn(t, fmt.Sprintf(pausedInstance, fmt.Sprintf("w%d", i), "127.0.3.1", "p"), "create", "-n", ns, "-f", "-").ok(t)
	}
	kubectlIn(t, "apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: p}\nspec: {source: {instances: {}}}\n", "create", "-n", ns, "-f", "-").ok(t)
	kubectl(t, "delete", "namespace", ns, "--wait=false").ok(t)
	eventually(t, "the namespace is gone", func() error {
		namespace, err := sys.Kube.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New(fmt.Sprint(namespace.Status))
	})
}
