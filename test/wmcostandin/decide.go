// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	prefix           = "windowsmachineconfig.openshift.io/"
	versionName      = prefix + "version"
	desiredName      = prefix + "desired-version"
	keyHashName      = prefix + "pub-key-hash"
	usernameName     = prefix + "username"
	hostKeyName      = prefix + "ssh-host-key"
	hostKeyTypeName  = prefix + "ssh-host-key-type"
	byohLabel        = prefix + "byoh"
	upgradingLabel   = prefix + "upgrading"
	ignoreLabel      = prefix + "ignore"
	workerLabel      = "node-role.kubernetes.io/worker"
	machineOSLabel   = "machine.openshift.io/os-id"
	machineOSWindows = "Windows"
)

// Deed is what WMCO does about a host.
type Deed string

const (
	// Configure is without a drain: containers that run are killed.
	Configure Deed = "Configure"
	// Upgrade drains the Node, cleans the host and configures it.
	Upgrade Deed = "Upgrade"
	// Wait is for the upgrade of another Node. It ends what WMCO was about to do for all entries.
	Wait Deed = "Wait"
	// Refuse is to configure a Machine while Secret windows-user-data is not that of WMCO.
	Refuse Deed = "Refuse"
	// Deconfigure drains the Node, cleans the host and deletes the Node.
	Deconfigure Deed = "Deconfigure"
	// DeleteMachine deletes the Machine of the host.
	DeleteMachine Deed = "DeleteMachine"
	// RemoveServices deletes the ConfigMap with the services of a version that no Node has.
	RemoveServices Deed = "RemoveServices"
)

// Action is a [Deed] and what it is about.
type Action struct {
	Deed Deed
	// Machine of the host. Nil: it is, or was, an entry.
	Machine *machinev1beta1.Machine
	// Node of the host, as WMCO finds it. Nil: WMCO finds none.
	Node *corev1.Node
	// Address that WMCO connects to, and knows the host key by, and User that it logs in as. That of an entry is as it is written.
	Address, User string
}

// State is what WMCO decides by.
type State struct {
	// Version is that of WMCO, and KeyHash that of its key.
	Version, KeyHash string
	// UserDataDiffers: Secret windows-user-data is there, and not that of WMCO, which takes the hash of its key off the Nodes of all
	// Machines therefore.
	UserDataDiffers bool
	// MachineUser is whom WMCO logs in to hosts of Machines as.
	MachineUser string
	// Entries are the users of hosts of ConfigMap windows-instances, by IPv4 address.
	Entries map[string]string
	// Names are how entries are written that are names, by IPv4 address.
	Names    map[string]string
	Machines []machinev1beta1.Machine
	Nodes    []corev1.Node
}

// Machine says what WMCO does about a Machine. Nil: nothing.
func (s *State) Machine(m *machinev1beta1.Machine) *Action {
	a := &Action{Machine: m, User: s.MachineUser, Address: addressOf(m)}
	phase := ptr.Deref(m.Status.Phase, "")
	switch {
	case m.Labels[machineOSLabel] != machineOSWindows, m.Labels[ignoreLabel] == "true", !m.DeletionTimestamp.IsZero(), a.Address == "":
		return nil
	case phase == machinev1beta1.PhaseProvisioned:
		a.Deed = Configure
		return s.unlessRefused(a)
	case phase != machinev1beta1.PhaseRunning, m.Status.NodeRef == nil:
		return nil
	}
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == m.Status.NodeRef.Name })
	if i < 0 {
		return nil
	}
	a.Node = &s.Nodes[i]
	if _, has := a.Node.Annotations[versionName]; has && (a.Node.Annotations[keyHashName] != s.KeyHash || s.UserDataDiffers) {
		a.Deed = DeleteMachine
		return a
	}
	return s.unlessRefused(s.bringUp(a))
}

// unlessRefused is what WMCO does about a Machine that it is to configure.
func (s *State) unlessRefused(a *Action) *Action {
	if a != nil && s.UserDataDiffers {
		a.Deed = Refuse
	}
	return a
}

// Listed is what WMCO does about the ConfigMap, in this order: it ends with the first that fails, so that no Node is removed
// before all entries are nodes.
func (s *State) Listed() []*Action {
	var all []*Action
	kept := map[string]bool{}
	for _, address := range slices.Sorted(maps.Keys(s.Entries)) {
		a := &Action{Address: cmp.Or(s.Names[address], address), User: s.Entries[address]}
		if i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return isListed(&n) && hasAddress(&n, address) }); i >= 0 {
			a.Node = &s.Nodes[i]
			kept[a.Node.Name] = true
		}
		if a = s.bringUp(a); a != nil {
			all = append(all, a)
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; isListed(n) && !kept[n.Name] {
			all = append(all, &Action{Deed: Deconfigure, Node: n, Address: nodeAddress(n)})
		}
	}
	return all
}

// bringUp has a host be a node of this version. Nil: it is one.
func (s *State) bringUp(a *Action) *Action {
	switch has, version := versionOf(a.Node); {
	case !has:
		a.Deed = Configure
	case version == s.Version:
		return nil
	case slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool {
		return n.Name != a.Node.Name && isWindows(&n) && n.Labels[upgradingLabel] == "true"
	}):
		a.Deed = Wait
	default:
		a.Deed = Upgrade
	}
	return a
}

func versionOf(n *corev1.Node) (has bool, version string) {
	if n == nil {
		return false, ""
	}
	version, has = n.Annotations[versionName]
	return has, version
}

func isWindows(n *corev1.Node) bool { return n.Labels[corev1.LabelOSStable] == "windows" }

// isListed says whether a Node is one of those among which WMCO looks for entries.
func isListed(n *corev1.Node) bool { return isWindows(n) && n.Labels[byohLabel] == "true" }

func hasAddress(n *corev1.Node, address string) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
}

func nodeAddress(n *corev1.Node) string { return firstInternalIPv4(n.Status.Addresses) }

func addressOf(m *machinev1beta1.Machine) string { return firstInternalIPv4(m.Status.Addresses) }

func firstInternalIPv4(addresses []corev1.NodeAddress) string {
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(a.Address); a.Type == corev1.NodeInternalIP && err == nil && ip.Is4() {
			return a.Address
		}
	}
	return ""
}
