// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// A host that was configured for an instance that is gone, or has lost its status, is not that of another namespace
// until somebody hands it over, and is again that of its own.
func TestReconcileHostOfAnotherNamespace(t *testing.T) {
	const address = "10.1.42.1"
	for _, test := range []struct {
		name                  string
		configuredFor, theirs string
		says, not             string
	}{
		{"the operator's, named by a tenant", homeNamespace, "team-b", "was configured for another namespace", homeNamespace},
		{"a tenant's, named by the operator", "team-a", homeNamespace, "was configured for namespace team-a", "another namespace"},
		{"a tenant's, named by another one", "team-a", "team-b", "was configured for another namespace", "team-a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			node, theirs, ours := newNode("win-1", address, corev1.ConditionTrue), tenant(test.theirs, "theirs", address, 2), tenant(test.configuredFor, "ours", address, 1)
			node.Labels = map[string]string{v1alpha1.NamespaceLabel: test.configuredFor}
			f := newFixture(t, node, theirs)
			f.hosts.set(address, func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
			f.namespace = test.theirs
			f.settle("theirs")
			f.expect("theirs", v1alpha1.InstanceFailed, "Resolved=False/HostOfAnotherNamespace", "Authenticated=Unknown/NotTried", "NodeReady=Unknown/NotTried")
			got := f.get("theirs")
			message := got.Status.KeptOff().Message
			if command := "kubectl label node win-1 " + v1alpha1.NamespaceLabel + "=" + test.theirs + " --overwrite"; !strings.Contains(message, test.says) || !strings.HasSuffix(message, command) || strings.Contains(message, test.not) {
				t.Errorf("it says %q", message)
			}
			if got.Status.Node != nil {
				t.Errorf("it has Node %s", got.Status.Node.Name)
			}

			if err := f.client.Create(t.Context(), ours); err != nil {
				t.Fatal(err)
			}
			f.namespace = test.configuredFor
			f.settle("ours")
			f.expect("ours", v1alpha1.InstanceReady, "Resolved=True/AddressResolved", "NodeReady=True/NodeReady")

			// Handed over by somebody who may change Nodes, once nobody else has it.
			f.delete("ours")
			node.Labels[v1alpha1.NamespaceLabel] = test.theirs
			if err := f.client.Patch(t.Context(), node, client.Merge); err != nil {
				t.Fatal(err)
			}
			f.clock.Step(DefaultRecheckInterval * 2)
			f.namespace = test.theirs
			f.settle("theirs")
			f.expect("theirs", v1alpha1.InstanceReady, "Resolved=True/AddressResolved", "NodeReady=True/NodeReady")
		})
	}
}

// The kubelet of some Node keeps no host from being configured by reporting its address.
func TestReconcileNodeOfAnotherNamespaceElsewhere(t *testing.T) {
	const address = "10.1.42.1"
	instance, node := tenant("team-b", "w", address, 1), newNode("liar", address, corev1.ConditionTrue)
	node.Labels = map[string]string{v1alpha1.NamespaceLabel: "team-a"}
	f := newFixture(t, node, instance)
	f.namespace, f.r.Desired = "team-b", &scriptedDesired{revision: testRevision}
	f.hosts.set(address, func(h *scriptedHost) { h.key, h.machine = newKey(t, "host"), "firmware-1/windows-1" })
	f.settle("w")
	f.expect("w", v1alpha1.InstanceConnected, "Resolved=True/AddressResolved", "PreflightPassed=True/PreflightPassed")
}

// What an instance has configured itself stays its, whatever the Node says; and when an instance whose status was lost is
// deleted, the host of another namespace is not removed with it.
func TestConfiguredElsewhere(t *testing.T) {
	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	node.Labels = map[string]string{v1alpha1.NamespaceLabel: "team-a"}
	instance := newInstance("win-1", "10.1.42.1")
	if !configuredElsewhere(node, instance) {
		t.Error("a host of another namespace is its")
	}
	configured := instance.DeepCopy()
	configured.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	if configuredElsewhere(node, configured) || configuredElsewhere(newNode("win-1", "10.1.42.1", corev1.ConditionTrue), instance) {
		t.Error("its own host is not its")
	}

	instance.Finalizers = []string{v1alpha1.HostFinalizer}
	f := newFixture(t, instance, node)
	if err := f.client.Delete(t.Context(), f.get("win-1")); err != nil {
		t.Fatal(err)
	}
	f.settle("win-1")
	if status := f.get("win-1").Status; status.Node != nil || !status.OfAnotherNamespace() {
		t.Errorf("got %+v", status)
	}
}
