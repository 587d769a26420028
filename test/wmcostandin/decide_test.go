// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	testVersion = "11.0.0"
	testAddress = "10.0.0.1"
)

// windowsNode is a Node of Windows. Pairs of names and values are its annotations, and its labels where the name begins with label:.
func windowsNode(name, address string, pairs ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	for i := 0; i < len(pairs); i += 2 {
		if label, is := strings.CutPrefix(pairs[i], "label:"); is {
			setLabel(&n, label, pairs[i+1])
		} else {
			setAnnotation(&n, pairs[i], pairs[i+1])
		}
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// machine is a Machine of Windows that runs as a Node.
func machine(node string, edit ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	m := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "openshift-machine-api", Labels: map[string]string{machineOSLabel: machineOSWindows}}}
	m.Status.Phase = ptr.To(machinev1beta1.PhaseRunning)
	m.Status.NodeRef = &corev1.ObjectReference{Name: node}
	m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: node}, {Type: corev1.NodeInternalIP, Address: testAddress}}
	for _, e := range edit {
		e(m)
	}
	return m
}

func TestMachine(t *testing.T) {
	for _, tt := range []struct {
		name    string
		machine *machinev1beta1.Machine
		node    corev1.Node
		want    Deed
		// foreign: user data of others is there.
		foreign bool
	}{
		{"it is a node of this version", machine("a"), windowsNode("a", testAddress, versionName, testVersion, keyHashName, "k"), "", false},
		{"of another version", machine("a"), windowsNode("a", testAddress, versionName, "v1", keyHashName, "k"), Upgrade, false},
		{"with another key", machine("a"), windowsNode("a", testAddress, versionName, testVersion, keyHashName, "other"), DeleteMachine, false},
		{"of another version with another key", machine("a"), windowsNode("a", testAddress, versionName, "v1", keyHashName, ""), DeleteMachine, false},
		{"without a version the key is not compared", machine("a"), windowsNode("a", testAddress), Configure, false},
		{"its Node is gone", machine("gone"), windowsNode("a", testAddress), "", false},
		{"it has no Node yet", machine("", func(m *machinev1beta1.Machine) {
			m.Status.Phase, m.Status.NodeRef = ptr.To(machinev1beta1.PhaseProvisioned), nil
		}), windowsNode("b", "10.0.0.2"), Configure, false},
		{"it runs without a Node", machine("", func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }), windowsNode("b", "10.0.0.2"), "", false},
		{"it fails", machine("a", func(m *machinev1beta1.Machine) { m.Status.Phase = ptr.To(machinev1beta1.PhaseFailed) }), windowsNode("a", testAddress), "", false},
		{"it is ignored", machine("a", func(m *machinev1beta1.Machine) { m.Labels[ignoreLabel] = "true" }), windowsNode("a", testAddress), "", false},
		{"it runs Linux", machine("a", func(m *machinev1beta1.Machine) { m.Labels[machineOSLabel] = "Linux" }), windowsNode("a", testAddress), "", false},
		{"it has no address", machine("a", func(m *machinev1beta1.Machine) { m.Status.Addresses = nil }), windowsNode("a", testAddress), "", false},
		{"it is a node of this version, and the user data is that of others", machine("a"), windowsNode("a", testAddress, versionName, testVersion, keyHashName, "k"), DeleteMachine, true},
		{"without a version, and the user data is that of others", machine("a"), windowsNode("a", testAddress), Refuse, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &State{Version: testVersion, KeyHash: "k", MachineUser: "Administrator", UserDataDiffers: tt.foreign, Nodes: []corev1.Node{tt.node}}
			got := s.Machine(tt.machine)
			if (got == nil) != (tt.want == "") || got != nil && (got.Deed != tt.want || got.Address != testAddress || got.User != "Administrator") {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

// TestListedByName: WMCO finds the Node of an entry by its address, and goes to the host by the name that is written there.
func TestListedByName(t *testing.T) {
	const name = "win.example.com"
	s := &State{
		Version: testVersion, Entries: map[string]string{testAddress: "core"}, Names: map[string]string{testAddress: name},
		Nodes: []corev1.Node{windowsNode("a", testAddress, "label:"+byohLabel, "true", versionName, "v1")},
	}
	got := s.Listed()
	if len(got) != 1 || got[0].Deed != Upgrade || got[0].Node == nil || got[0].Address != name {
		t.Errorf("got %+v", got)
	}
}

func TestListed(t *testing.T) {
	const listed, upgrading = "label:" + byohLabel, "label:" + upgradingLabel
	entries := map[string]string{testAddress: "core"}
	for _, tt := range []struct {
		name    string
		entries map[string]string
		nodes   []corev1.Node
		want    string
	}{
		{"a node of this version", entries, []corev1.Node{windowsNode("a", testAddress, listed, "true", versionName, testVersion)}, ""},
		{"of another one", entries, []corev1.Node{windowsNode("a", testAddress, listed, "true", versionName, "v1")}, "Upgrade a"},
		{"without a version", entries, []corev1.Node{windowsNode("a", testAddress, listed, "true")}, "Configure a"},
		{"without the label it is not found", entries, []corev1.Node{windowsNode("a", testAddress, versionName, "v1")}, "Configure "},
		{"another one is being upgraded", entries, []corev1.Node{windowsNode("a", testAddress, listed, "true", versionName, "v1"), windowsNode("b", "10.0.0.2", upgrading, "true")}, "Wait a"},
		{"this one is", entries, []corev1.Node{windowsNode("a", testAddress, listed, "true", versionName, "v1", upgrading, "true")}, "Upgrade a"},
		{"without an entry", nil, []corev1.Node{windowsNode("a", testAddress, listed, "true", versionName, testVersion)}, "Deconfigure a"},
		{"neither entry nor label", nil, []corev1.Node{windowsNode("a", testAddress, versionName, "v1")}, ""},
		{
			"entries come first", entries,
			[]corev1.Node{windowsNode("b", "10.0.0.2", listed, "true"), windowsNode("a", testAddress, listed, "true", versionName, "v1")},
			"Upgrade a, Deconfigure b",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &State{Version: testVersion, Entries: tt.entries, Nodes: tt.nodes}
			var got []string
			for _, a := range s.Listed() {
				name := ""
				if a.Node != nil {
					name = a.Node.Name
				}
				got = append(got, string(a.Deed)+" "+name)
				if a.Deed != Deconfigure && (a.User != "core" || a.Address != testAddress) {
					t.Errorf("it connects to %s as %s", a.Address, a.User)
				}
			}
			if got := strings.Join(slices.Clip(got), ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
