// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"slices"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const atBastion = "10.9.9.9:22"

// behind is an instance whose host was found through a bastion.
func behind(bastion string) instanceEdit {
	return func(i *v1alpha1.WindowsInstance) {
		i.Status.MachineID, i.Status.HostIP, i.Status.Bastion = "firmware-1/windows-1", "10.0.0.5", bastion
		i.Status.System = &v1alpha1.SystemStatus{Hostname: "win-1"}
	}
}

// TestContactsBehindBastions: the same address behind two bastions is that of two hosts.
func TestContactsBehindBastions(t *testing.T) {
	own := func(i *v1alpha1.WindowsInstance) { i.Spec.Bastion = &v1alpha1.Bastion{Address: "10.8.8.8", Port: 22} }
	for _, tt := range []struct {
		name string
		edit []instanceEdit
		want string
	}{
		{"directly", nil, "10.0.0.5:0"},
		{"its own", []instanceEdit{own}, "10.0.0.5:0 through 10.8.8.8:22"},
		{"that of its pool, as recorded", []instanceEdit{func(i *v1alpha1.WindowsInstance) { i.Status.Bastion = atBastion }}, "10.0.0.5:0 through 10.9.9.9:22"},
		{"found through one", []instanceEdit{behind(atBastion)}, "10.0.0.5:0 through 10.9.9.9:22"},
		{"found through one, and to be found through another", []instanceEdit{behind(atBastion), own}, "10.0.0.5:0 through 10.9.9.9:22"},
		{"found directly, and to be found through one", []instanceEdit{behind(""), own}, "10.0.0.5:0"},
	} {
		if got := Contacts(newInstance("i", tt.edit...)); !slices.Contains(got, tt.want) || len(slices.Compact(got)) != 1 {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFindThroughBastion: who has a bastion says where an address leads, and gets the Node of nobody else by that.
func TestFindThroughBastion(t *testing.T) {
	labeled := func(namespace string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.NamespaceLabel: namespace} }
	}
	joining := func(i *v1alpha1.WindowsInstance) { i.Status.Operation = &v1alpha1.Operation{JoinsAs: "win-1"} }
	joined := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{JoinsAs: "win-1", FinishedAt: &metav1.Time{}}
	}
	called := func(name string) instanceEdit {
		return func(i *v1alpha1.WindowsInstance) { i.Status.System.Hostname = name }
	}
	provider := func(i *v1alpha1.WindowsInstance) { i.Spec.ProviderID = "p://1" }
	had := func(i *v1alpha1.WindowsInstance) {
		i.Status.Node = &v1alpha1.NodeReference{Name: "win-1", UID: "uid-of-win-1"}
	}
	home := func(i *v1alpha1.WindowsInstance) { i.Namespace = "home" }
	for _, tt := range []struct {
		name string
		edit []instanceEdit
		node *corev1.Node
		want bool
	}{
		{"directly", []instanceEdit{behind("")}, newNode("win-1"), true},
		{"a Node of somebody", []instanceEdit{behind(atBastion)}, newNode("win-1"), false},
		{"a Node of another namespace", []instanceEdit{behind(atBastion)}, newNode("win-1", labeled("other")), false},
		{"a Node of its namespace", []instanceEdit{behind(atBastion)}, newNode("win-1", labeled("ns")), true},
		{"a Node of its namespace, which is another host", []instanceEdit{behind(atBastion), called("win-2")}, newNode("win-1", labeled("ns")), false},
		{"the Node that it joins as", []instanceEdit{behind(atBastion), joining}, newNode("win-1"), true},
		{"a Node that it joined as before", []instanceEdit{behind(atBastion), joined}, newNode("win-1"), false},
		{"the Node that it had", []instanceEdit{behind(atBastion), had}, newNode("win-1"), true},
		{"a Node by its provider ID", []instanceEdit{behind(atBastion), provider}, newNode("win-1", func(n *corev1.Node) { n.Spec.ProviderID = "p://1" }), false},
		{"where the operator is", []instanceEdit{behind(atBastion), home}, newNode("win-1"), true},
		{"where the operator is, the Node of another host", []instanceEdit{behind(atBastion), home, called("win-2")}, newNode("win-1"), false},
		{"where the operator is, by provider", []instanceEdit{behind(atBastion), home, called("win-2"), provider}, newNode("win-1", func(n *corev1.Node) { n.Spec.ProviderID = "p://1" }), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := newInstance("i", append([]instanceEdit{withoutNode}, tt.edit...)...)
			got, _, err := Nodes{Reader: newReader(t, tt.node), Namespace: "home"}.Find(t.Context(), instance)
			if err != nil || (got != nil) != tt.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestStandsForBehindBastion: an address behind one bastion is none behind another.
func TestStandsForBehindBastion(t *testing.T) {
	elsewhere := func(i *v1alpha1.WindowsInstance) { i.Namespace = "elsewhere" }
	silent := func(i *v1alpha1.WindowsInstance) { i.Status.MachineID, i.Status.Version = "", "v1" }
	for _, tt := range []struct {
		name            string
		other, instance *v1alpha1.WindowsInstance
		want            bool
	}{
		{"both directly", newInstance("z", elsewhere, behind("")), newInstance("i"), true},
		{"through a bastion of its own", newInstance("z", elsewhere, behind(atBastion)), newInstance("i"), false},
		{"the same, and does not say which machine it is", newInstance("z", elsewhere, behind(atBastion), silent), newInstance("i"), false},
		{"through the same bastion", newInstance("z", elsewhere, behind(atBastion)), newInstance("i", func(i *v1alpha1.WindowsInstance) { i.Status.Bastion = atBastion }), true},
	} {
		if got := StandsFor(tt.other, tt.instance, "home"); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestCertificatesThroughBastion: no certificate is issued for an address that only a bastion says the host has, and no host
// becomes the Node of a Machine by one.
func TestCertificatesThroughBastion(t *testing.T) {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-machine-api", Name: "master-0"}}
	machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
	reader := newReader(t, machine)
	for bastion, proven := range map[string]bool{"": true, atBastion: false} {
		instance := newInstance("i", withoutNode, behind(bastion))
		h, err := Nodes{Reader: reader, Namespace: "home"}.Host(t.Context(), instance, "master-0")
		if err != nil || (len(h.Addresses) == 1) != proven {
			t.Errorf("through %q the host has the addresses %v, %v", bastion, h.Addresses, err)
		}
		taken, err := MachineNamed(t.Context(), reader, instance, "master-0")
		if err != nil || (taken == nil) != proven {
			t.Errorf("through %q the name is that of Machine %v, %v", bastion, taken, err)
		}
	}
}
