// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// machineConfigCluster is a cluster that was installed, and what stands in for the Machine Config Operator there.
func machineConfigCluster(t *testing.T, objects ...client.Object) machineConfigOperator {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := Cluster{Platform: configv1.NonePlatformType, APIServerURL: "https://api-int.demo.example.com:6443", APIServerCA: []byte("server"), ClientCA: []byte("clients"), ServiceNetwork: "172.30.0.0/16", DNS: "172.30.0.10"}
	installed, err := o.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return machineConfigOperator{client: clientfake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&mcfgv1.MachineConfigPool{}, &mcfgv1.KubeletConfig{}).WithObjects(append(installed, objects...)...).Build()}
}

// workersPool is the pool of the workers after all there was to do was done.
func (m machineConfigOperator) workersPool(t *testing.T) *mcfgv1.MachineConfigPool {
	t.Helper()
	for range 3 { // one thing may follow from another one
		if err := m.syncControllerConfig(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pool := &mcfgv1.MachineConfigPool{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: workerRole}, pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

// annotate changes an annotation of a Node.
func (m machineConfigOperator) annotate(t *testing.T, name, annotation, value string) {
	t.Helper()
	node := &corev1.Node{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, annotation, value)
	if err := m.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// follow plays the daemon of a node: it has what is desired now.
func (m machineConfigOperator) follow(t *testing.T, name, desired string) {
	t.Helper()
	node := &corev1.Node{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	if got := node.Annotations[DesiredConfigAnnotation]; got != desired {
		t.Fatalf("Node %s should have %s, want %s", name, got, desired)
	}
	m.annotate(t, name, CurrentConfigAnnotation, desired)
}

// TestRollOut: a pool names its new configuration at once, and says that its nodes have it when the last one does; while it is
// paused, no node goes on.
func TestRollOut(t *testing.T) {
	first := machineConfigCluster(t).workersPool(t).Spec.Configuration.Name
	linux := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""},
			Annotations: map[string]string{CurrentConfigAnnotation: first, DesiredConfigAnnotation: first},
		}}
	}
	m := machineConfigCluster(t, linux("a"), linux("b"))
	must := func(what, spec, status string, updated int32) {
		t.Helper()
		pool := m.workersPool(t)
		if pool.Spec.Configuration.Name != spec || pool.Status.Configuration.Name != status || pool.Status.UpdatedMachineCount != updated || pool.Status.MachineCount != 2 {
			t.Fatalf("%s: the pool should have %s and has %s, on %d of %d nodes", what, pool.Spec.Configuration.Name, pool.Status.Configuration.Name, pool.Status.UpdatedMachineCount, pool.Status.MachineCount)
		}
	}
	pause := func(paused bool) {
		t.Helper()
		pool := m.workersPool(t)
		pool.Spec.Paused = paused
		if err := m.client.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	must("as installed", first, first, 2)
	kubelet := kubeletConfig("pods", workerRole, `{"maxPods":110}`)
	if err := m.client.Create(t.Context(), &kubelet); err != nil {
		t.Fatal(err)
	}
	second := m.workersPool(t).Spec.Configuration.Name
	if second == first {
		t.Fatal("the pool has no new configuration")
	}
	must("nobody has it yet", second, first, 0)
	pause(true)
	m.follow(t, "a", second) // it was asked before
	must("one has it", second, first, 1)
	m.follow(t, "b", first) // it is not asked for while the pool is paused
	pause(false)
	must("no longer paused", second, first, 1)
	m.follow(t, "b", second)
	must("all have it", second, second, 2)
	if err := m.client.Delete(t.Context(), &kubelet); err != nil {
		t.Fatal(err)
	}
	must("taken back", first, second, 0)
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: second}, &mcfgv1.MachineConfig{}); err != nil {
		t.Errorf("what was rendered before is not kept: %v", err)
	}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: "99-worker-generated-kubelet"}, &mcfgv1.MachineConfig{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("what was generated is still there: %v", err)
	}
}

// TestInstalledIsRendered: what a cluster is installed with is what would be rendered there.
func TestInstalledIsRendered(t *testing.T) {
	m := machineConfigCluster(t)
	before := &mcfgv1.MachineConfigPool{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: workerRole}, before); err != nil {
		t.Fatal(err)
	}
	if got, want := m.workersPool(t).Spec.Configuration.Name, before.Spec.Configuration.Name; got != want {
		t.Errorf("the workers should have %s, want %s", got, want)
	}
}

// TestControllerConfig: it follows where its authorities come from, and what cannot be used leaves it as it is.
func TestControllerConfig(t *testing.T) {
	m := machineConfigCluster(t)
	set := func(namespace, name, text string) {
		t.Helper()
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{trustedCAKey: text}}
		if err := m.client.Update(t.Context(), config); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err != nil {
			if err := m.client.Create(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(ManagedNamespace, ClientCAName, "old and new")
	set(ManagedNamespace, ServerCAName, "another server")
	m.workersPool(t)
	config, bootstrap := &mcfgv1.ControllerConfig{}, &corev1.ConfigMap{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: controllerConfigName}, config); err != nil {
		t.Fatal(err)
	}
	if err := m.client.Get(t.Context(), client.ObjectKey{Namespace: MachineConfigNamespace, Name: bootstrapCAName}, bootstrap); err != nil {
		t.Fatal(err)
	}
	if got := string(config.Spec.KubeAPIServerServingCAData); got != "old and new" {
		t.Errorf("the clients of kubelets are verified by %q", got)
	}
	if got := string(bootstrap.BinaryData[trustedCAKey]); got != "another server" {
		t.Errorf("the API server is verified by %q", got)
	}
	set(ConfigNamespace, UserCAName, "no certificate")
	if err := m.syncControllerConfig(t.Context()); err == nil {
		t.Error("a bundle without certificates is taken")
	}
}
