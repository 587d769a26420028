// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Indexes of the cache, which [Nodes.Find] needs. Their names are long as all controllers
// of a process share them.
const (
	// NodeIndex holds what identifies the machine of a Node, see [OfNode].
	NodeIndex = "instance-controller/node-identity"
	// MachineIndex holds the machine of an instance, see [OfMachine].
	MachineIndex = "instance-controller/machine"
	// InstanceIndex holds the same of an instance, see [OfInstance].
	InstanceIndex = "instance-controller/instance-identity"
)

// OfNode is what identifies the machine of a Node: its provider ID, its addresses, and the Node
// itself.
func OfNode(node *corev1.Node) []string {
	ids := []string{ofNodeUID(node.UID)}
	if v1alpha1.CanonicalProviderID(node.Spec.ProviderID) != "" {
		ids = append(ids, OfProvider(node.Spec.ProviderID))
	}
	for _, address := range node.Status.Addresses {
		ids = append(ids, addressIdentity(address.Address))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// OfInstance is the same of an instance, the strongest first. A host that is known keeps its Node
// when its address changes, and when its instance names another machine, see [keepsNode].
func OfInstance(instance *v1alpha1.WindowsInstance) []string {
	var ids []string
	if node := instance.Status.Node; node != nil && instance.Status.MachineID != "" {
		ids = append(ids, ofNodeUID(node.UID))
	}
	if id := instance.Spec.ProviderID; v1alpha1.CanonicalProviderID(id) != "" {
		ids = append(ids, OfProvider(id))
		if !keepsNode(instance) {
			slices.Reverse(ids)
		}
	}
	for _, address := range addressesOf(instance) {
		if id := addressIdentity(address); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// keepsNode says whether the Node of an instance stays the one that it has, while that exists, whatever spec.providerID is changed to: the
// host has become it with what we put on it, or calls itself so. Otherwise the pods of another host would be evicted, and its Node be
// deleted, for what somebody wrote.
func keepsNode(instance *v1alpha1.WindowsInstance) bool {
	status := &instance.Status
	return status.Node != nil && status.MachineID != "" && (status.MayHaveChangedHost() || New(instance, nil).IsNamed(status.Node.Name))
}

// addressesOf is where the host of an instance may be: at its addresses, as far as they are known, and
// at that in its spec, or the name there. An address in the spec at which a host that is known was not
// found yet is not its. Those of a name are what DNS says: they connect an instance to others, and prove
// nothing, see [v1alpha1.WindowsInstanceStatus.FoundAt].
func addressesOf(instance *v1alpha1.WindowsInstance) []string {
	addresses := append(slices.Clone(instance.Status.Addresses), instance.Status.FoundAt()...)
	if FoundAtAddress(instance) {
		addresses = append(addresses, instance.Spec.Address)
	}
	return addresses
}

func ofNodeUID(uid types.UID) string { return "node/" + string(uid) }

// FoundAtAddress says whether the host of an instance was found at spec.address, or nothing speaks against
// that: not if the host is known, and was at other addresses so far.
func FoundAtAddress(instance *v1alpha1.WindowsInstance) bool {
	_, err := netip.ParseAddr(instance.Spec.Address)
	return err != nil || !instance.Status.Identified() ||
		slices.Contains(instance.Status.FoundAt(), CanonicalAddress(instance.Spec.Address))
}

// Endpoints is where an instance is contacted, see [Contacts]. Besides, the machine that it says it
// is: nobody gets at the Node of another instance by naming its machine.
func Endpoints(instance *v1alpha1.WindowsInstance) []string {
	out := Contacts(instance)
	if id := instance.Spec.ProviderID; v1alpha1.CanonicalProviderID(id) != "" {
		out = append(out, OfProvider(id))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Contacts is where an instance is contacted, as far as IP addresses are known: those of its status,
// and that in its spec. Behind two bastions the same address is that of two hosts.
func Contacts(instance *v1alpha1.WindowsInstance) []string {
	port, through := strconv.Itoa(int(instance.Spec.Port)), ""
	if bastion := Through(instance); bastion != "" {
		through = " through " + bastion
	}
	var out []string
	for _, address := range addressesOf(instance) {
		if _, err := netip.ParseAddr(address); err == nil {
			out = append(out, net.JoinHostPort(CanonicalAddress(address), port)+through)
		}
	}
	return out
}

// Through is the bastion behind which the addresses of an instance are: the one that its host was found through, else its own,
// else that of its pool, which the status has from the first look at the instance on. Empty: none.
func Through(instance *v1alpha1.WindowsInstance) string {
	if own := instance.Spec.Bastion; own != nil && !instance.Status.Identified() {
		return own.Endpoint()
	}
	return instance.Status.Bastion
}

// OfMachine is what [MachineIndex] holds of an instance: what hosts have in common that may be one
// machine. Empty: the machine is not known.
func OfMachine(instance *v1alpha1.WindowsInstance) []string {
	firmware, installed, _ := strings.Cut(instance.Status.MachineID, "/")
	if id := cmp.Or(firmware, installed); id != "" {
		return []string{id}
	}
	return nil
}

// OfProvider identifies a machine by its ID at its provider, which must name one, see [v1alpha1.CanonicalProviderID].
func OfProvider(id string) string { return "provider/" + v1alpha1.CanonicalProviderID(id) }

func addressIdentity(address string) string { return "address/" + CanonicalAddress(address) }

// CanonicalAddress gives the same host one spelling: IPv6 has many, and DNS
// ignores case and a final dot.
func CanonicalAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(address), ".")
}
