// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// clusterSite is a cluster that is the Cluster clusters/this of the Cluster API in it, whose controllers a test plays.
type clusterSite struct {
	*site
	namespace string
}

// apply applies an object of Cluster API.
func (c *clusterSite) apply(t *testing.T, kind, name, rest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	writeFile(t, file, fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta2\nkind: %s\nmetadata: {name: %s, namespace: %s%s", kind, name, c.namespace, rest))
	c.kubectl(t, "apply", "-f", file)
}

func (c *clusterSite) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c *clusterSite) uid(t *testing.T, kind, name string) string {
	t.Helper()
	return c.kubectl(t, "get", kind+".cluster.x-k8s.io", name, "-n", c.namespace, "-o", "jsonpath={.metadata.uid}")
}

// machine makes a Machine of the MachineSet win-abc whose host is there.
func (c *clusterSite) machine(t *testing.T, name, cluster, address, bootstrap string) {
	t.Helper()
	c.apply(t, "Machine", name, fmt.Sprintf(`, labels: {machine.openshift.io/os-id: Windows},
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: win-abc, uid: %s, controller: true}]}
spec: {clusterName: %s, providerID: "p://%s", bootstrap: %s}
`, c.uid(t, "machineset", "win-abc"), cluster, name, bootstrap))
	c.patch(t, "machine", name, asJSON(t, map[string]any{"status": map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true}, "addresses": []corev1.NodeAddress{internalIP(address)},
	}}), "--subresource=status")
}

func (c *clusterSite) patch(t *testing.T, kind, name, patch string, args ...string) {
	t.Helper()
	c.kubectl(t, append([]string{"patch", kind + ".cluster.x-k8s.io", name, "-n", c.namespace, "--type=merge", "-p", patch}, args...)...)
}

// TestClusterAPI: Machines of the Cluster that the cluster is become nodes, or are only observed if a bootstrap provider makes them nodes. Those of
// other Clusters are nobody's business. The CustomResourceDefinitions are stand-ins.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	c := &clusterSite{namespace: "clusters"}
	c.site = newSiteWith(t, standin.PayloadOptions{Bytes: 1 << 20}, system.Options{ControllerArgs: []string{"--cluster-api-cluster=clusters/this"}})
	c.site.namespace(t, c.namespace)
	// It is installed while the controller runs, and is waited for.
	c.kubectl(t, "create", "rolebinding", "windows-cluster-api-reader", "-n", c.namespace, "--clusterrole=windows-cluster-api-reader", "--serviceaccount="+system.Namespace+":windows-controller")
	if err := c.InstallCRDs(t.Context(), filepath.Join("testdata", "clusterapi.yaml")); err != nil {
		t.Fatal(err)
	}
	const template = `spec: {clusterName: this, replicas: 2, template: {metadata: {labels: {machine.openshift.io/os-id: Windows}}}}
`
	c.apply(t, "Cluster", "this", "}\nspec: {}\n")
	c.apply(t, "Cluster", "other", "}\nspec: {}\n")
	c.apply(t, "MachineDeployment", "win", "}\n"+template)
	c.apply(t, "MachineSet", "win-abc", fmt.Sprintf(", ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: win, uid: %s, controller: true}]}\n%s", c.uid(t, "machinedeployment", "win"), template))

	first := c.HostIP().Next().Next()
	second := first.Next()
	third := second.Next()
	h := c.newHost(t, c.namespace, "capi-node", winhost.Options{Address: first.String(), Port: 22})
	observed := c.newHost(t, c.namespace, "capi-theirs", winhost.Options{Address: second.String(), Port: 22})
	others := c.newHost(t, c.namespace, "capi-other", winhost.Options{Address: third.String(), Port: 22})
	ours := "{dataSecretName: " + wmco.UserDataSecret + "}"
	c.machine(t, others.name, "other", third.String(), ours)
	c.machine(t, observed.name, "this", second.String(), "{dataSecretName: theirs, configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: theirs}}")
	c.machine(t, h.name, "this", first.String(), ours)

	h.waitReady(t)
	if node := h.node(t, h.name); node.Spec.ProviderID != "p://"+h.name || node.Labels[wmco.BYOHLabel] != "" {
		t.Errorf("its Node has provider ID %q and labels %v", node.Spec.ProviderID, node.Labels)
	}
	if got := c.kubectl(t, "get", "wnp", "win", "-n", c.namespace); !strings.Contains(got, "MachineDeployment/win") {
		t.Errorf("the pool is\n%s", got)
	}
	if out, err := c.Kubectl(t.Context(), "delete", "wi", h.name, "-n", c.namespace); err == nil || !strings.Contains(out+err.Error(), "the host comes from Machine.cluster.x-k8s.io clusters/"+h.name) {
		t.Errorf("deleting the instance of a Machine: %v\n%s", err, out)
	}
	c.waitEvent(t, c.namespace, h.name, wmco.MachineSetup, c.namespace+"/"+h.name)

	t.Run("observed", func(t *testing.T) { c.observe(t, observed) })
	t.Run("another Cluster", func(t *testing.T) {
		if _, err := c.instances(c.namespace).Get(t.Context(), others.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("it has an instance: %v", err)
		}
		if n := len(others.host.Commands()); n > 0 {
			t.Errorf("%d commands were run on its host", n)
		}
	})
	t.Run("moved and back", func(t *testing.T) { c.move(t, h, first.String(), ours) })
	t.Run("deleted", func(t *testing.T) { c.remove(t, h, observed) })
}

// observe has a bootstrap provider make a host a node: it is watched, and what makes it one is left to that.
func (c *clusterSite) observe(t *testing.T, h *siteHost) {
	i := h.waitReason(t, v1alpha1.ConditionConfigured, v1alpha1.ReasonObserved)
	if i.Spec.Management != v1alpha1.ManagementObserved || i.Status.Operation != nil {
		t.Errorf("it is %+v\n%s", i.Spec, describeOperation(i))
	}
	if _, err := c.instances(c.namespace).Reconfigure(t.Context(), h.name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "spec.management is Observed") {
		t.Errorf("configuring it nevertheless: %v", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: corev1.NodeSpec{ProviderID: "p://" + h.name}}
	nodes := c.Kube.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Node of the provider is ready", func() error { // others write it, too
		if node, err = nodes.Get(t.Context(), h.name, metav1.GetOptions{}); err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{internalIP(h.host.Address())}
		node.Status.NodeInfo.OperatingSystem = "windows"
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
		node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	})
	h.wait(t, "it has the Node that the provider has made", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Node == nil || i.Status.Node.UID != node.UID {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	h.mustHaveOnlyTheAgent(t)
	if now := h.node(t, h.name); now.Annotations[v1alpha1.ManagedTaintsAnnotation] != "" || now.Labels[v1alpha1.NamespaceLabel] != "" {
		t.Errorf("its Node was written: %v, %v", now.Labels, now.Annotations)
	}
}

// move has somebody move the Cluster to another management cluster and back, as clusterctl does: nothing happens to the host.
func (c *clusterSite) move(t *testing.T, h *siteHost, address, bootstrap string) {
	before := h.get(t)
	paused := func(want bool) *v1alpha1.WindowsInstance {
		t.Helper()
		return h.wait(t, fmt.Sprintf("paused is %t", want), func(i *v1alpha1.WindowsInstance) error {
			synced := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionSourceSynced)
			if i.Spec.Paused != want || (synced != nil && synced.Reason == v1alpha1.ReasonSourcePaused) != want {
				return fmt.Errorf("%t, %+v", i.Spec.Paused, synced)
			}
			return nil
		})
	}
	mustStay := undisturbed(t, h.subject())
	c.patch(t, "cluster", "this", `{"spec":{"paused":true}}`)
	paused(true)
	c.kubectl(t, "delete", "machine.cluster.x-k8s.io", h.name, "-n", c.namespace)
	c.kubectl(t, "delete", "cluster.cluster.x-k8s.io", "this", "-n", c.namespace)
	h.wait(t, "it says that its Cluster is gone", func(i *v1alpha1.WindowsInstance) error {
		if message := messageOf(t, i, v1alpha1.ConditionSourceSynced); !strings.Contains(message, "there is no such Cluster") {
			return errors.New(message)
		}
		return nil
	})
	c.machine(t, h.name, "this", address, bootstrap)
	c.apply(t, "Cluster", "this", "}\nspec: {paused: false}\n")
	after := paused(false)
	if after.UID != before.UID || after.Annotations[v1alpha1.MachineUIDAnnotation] != c.uid(t, "machine", h.name) || after.Annotations[v1alpha1.MachineUIDAnnotation] == before.Annotations[v1alpha1.MachineUIDAnnotation] {
		t.Errorf("it is %s of %v, and was %s of %v", after.UID, after.Annotations, before.UID, before.Annotations)
	}
	h.waitReady(t)
	mustStay.mustHold(t)
}

// remove deletes the Machines, one of which a hook of somebody else holds, and then the MachineDeployment.
func (c *clusterSite) remove(t *testing.T, h, observed *siteHost) {
	const hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup"
	c.patch(t, "machine", h.name, `{"metadata":{"finalizers":["machine.cluster.x-k8s.io"],"annotations":{"`+hook+`":"x"}}}`)
	c.patch(t, "machine", h.name, `{"status":{"nodeRef":{"name":"`+h.name+`"}}}`, "--subresource=status")
	c.kubectl(t, "delete", "machine.cluster.x-k8s.io", h.name, "-n", c.namespace, "--wait=false")
	// Meanwhile the one without a hook goes.
	c.kubectl(t, "delete", "machine.cluster.x-k8s.io", observed.name, "-n", c.namespace)
	eventually(t, "the instance of the host that is observed goes", func() error {
		_, err := c.instances(c.namespace).Get(t.Context(), observed.name, metav1.GetOptions{})
		return mustBeGone(err)
	})
	observed.node(t, observed.name) // which others have made
	if i := h.get(t); !i.DeletionTimestamp.IsZero() {
		t.Error("the instance goes while a hook holds the Machine")
	}
	c.kubectl(t, "delete", "machinedeployment.cluster.x-k8s.io/win", "machineset.cluster.x-k8s.io/win-abc", "-n", c.namespace)
	c.patch(t, "machine", h.name, `{"metadata":{"annotations":null}}`)
	h.waitGone(t)
	h.mustBeClean(t)
	c.patch(t, "machine", h.name, `{"metadata":{"finalizers":null}}`)
	eventually(t, "the pool goes", func() error {
		_, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.namespace).Get(t.Context(), "win", metav1.GetOptions{})
		return mustBeGone(err)
	})
}
