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

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
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

// TestOrphans removes a namespace by force while nobody answers for our API. What was in it goes when our
// programs are back, and no host is logged in to for that.
func TestOrphans(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{WithoutController: true, ControllerArgs: []string{"--missing-namespace-timeout=0"}})
	const ns = "removed-by-force"
	if _, err := s.Kubectl(t.Context(), "create", "namespace", ns); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"held", "free"} {
		instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1alpha1.WindowsInstanceSpec{Address: "127.0.3.1", Paused: true}}
		if name == "held" {
			instance.Finalizers = []string{v1alpha1.HostFinalizer}
		}
		if _, err := s.Windows.WindowsV1alpha1().WindowsInstances(ns).Create(t.Context(), instance, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	path, args := commandOf(t, s.Server)
	if err := s.Server.Stop(); err != nil {
		t.Fatal(err)
	}
	namespaces := s.Kube.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() error {
		namespace, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		namespace.Spec.Finalizers = nil
		if _, err := namespaces.Finalize(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return errors.New("it is there")
	})
	if _, err := s.StartProcess(t.Context(), controlplane.Command{Name: "windows-apiserver-2", Path: path, Args: args, Ready: s.ServerReady}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitForAPIService(t.Context(), "v1alpha1.windows.openshift.io"); err != nil {
		t.Fatal(err)
	}
	if err := s.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instances are gone", func() error {
		list, err := s.Windows.WindowsV1alpha1().WindowsInstances(ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}
