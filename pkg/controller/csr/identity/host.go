// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"net/netip"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

// Host is what is known of the host of an instance other than from its kubelet. It is not
// safe for concurrent use.
type Host struct {
	// Instance is what requests for certificates are compared with. Its Node is set only
	// when it is confirmed.
	policy.Instance

	// Object is the instance. It is only read.
	Object *v1alpha1.WindowsInstance
	// Sources say of each name and address who says that the host has it.
	Sources map[string]string
}

// New collects what is known of a host. Machine is the one behind it, nil if there is none.
func New(instance *v1alpha1.WindowsInstance, machine *machinev1beta1.Machine) *Host {
	h := &Host{
		Instance: policy.Instance{ID: client.ObjectKeyFromObject(instance).String()},
		Object:   instance, Sources: map[string]string{},
	}
	h.add(instance.Spec.Address, "spec.address")
	for _, address := range instance.Status.Addresses {
		h.add(address, "status.addresses")
	}
	h.add(instance.Status.HostIP, "status.hostIP")
	h.addMachine(machine)
	if system := instance.Status.System; system != nil {
		h.add(system.Hostname, "status.system.hostname")
		h.add(system.FQDN, "status.system.fqdn")
	}
	if name := joinsAs(instance); name != "" {
		h.add(name, "status.operation.joinsAs")
	} else {
		h.add(platformName(instance), "status.system.nodeName")
	}
	if node := instance.Status.Node; node != nil && slices.Contains(h.Names, node.Name) {
		h.Node = node.Name
	}
	return h
}

// joinsAs returns the name for which the host was given credentials, as long as the operation goes on by which it
// joins. Afterwards the host says so itself. Empty: it does not join, or has a Node of another name.
func joinsAs(instance *v1alpha1.WindowsInstance) string {
	op, node := instance.Status.Operation, instance.Status.Node
	if op == nil || op.FinishedAt != nil || node != nil && node.Name != op.JoinsAs {
		return ""
	}
	return op.JoinsAs
}

// platformName returns what the platform calls the host, where that is the name of the Node that it has. By itself it
// makes no host the one of a name: one that was made of the disk of another says what that had said. Empty: it is not.
func platformName(instance *v1alpha1.WindowsInstance) string {
	system, node := instance.Status.System, instance.Status.Node
	if system == nil || node == nil || node.Name != system.NodeName {
		return ""
	}
	return system.NodeName
}

// addMachine adds what the Machine of the host has. Nil: it has none.
func (h *Host) addMachine(machine *machinev1beta1.Machine) {
	if machine == nil {
		return
	}
	for _, address := range machine.Status.Addresses {
		if useful(address) {
			h.add(address.Address, "Machine "+machine.Name)
		}
	}
}

// useful says whether an address of a Machine is that of one host: a host that got none
// from DHCP calls itself 169.254.x.y, and every host has one in fe80::/10.
func useful(address corev1.NodeAddress) bool {
	addr, err := netip.ParseAddr(address.Address)
	return err != nil || addr.IsGlobalUnicast()
}

// add adds a name or an address.
func (h *Host) add(value, source string) {
	if addr, err := netip.ParseAddr(value); err == nil {
		addr = Canonical(addr)
		if !slices.Contains(h.Addresses, addr) {
			h.Addresses = append(h.Addresses, addr)
			h.Sources[addr.String()] = source
		}
		return
	}
	for _, name := range policy.HostNames(value) {
		if !slices.Contains(h.Names, name) && !isServiceName(name) {
			h.Names = append(h.Names, name)
			h.Sources[name] = source
		}
	}
}

// Canonical is the spelling of an address in which addresses are compared.
func Canonical(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// isServiceName says whether a name means something else than a host inside of a
// cluster. A host can call itself as it likes; what it serves under must not make it the
// API server or a Service to others.
func isServiceName(name string) bool {
	labels := strings.Split(name, ".")
	return labels[0] == "localhost" || labels[0] == "kubernetes" || slices.Contains(labels[1:], "svc")
}

// Disputed says whether the instance has the Node of that name only by the addresses
// that the kubelet of that Node reports.
func (h *Host) Disputed(nodeName string) bool {
	return h.Node == "" && h.Object.Status.Node != nil && h.Object.Status.Node.Name == nodeName
}

// confirm makes nodeName, which is disputed, the Node of the host, given the addresses
// that DNS has for the name, if one of them is that of the host.
func (h *Host) confirm(nodeName string, addresses []netip.Addr) {
	if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return slices.Contains(h.Addresses, Canonical(a)) }) {
		return
	}
	h.add(nodeName, "DNS")
	if slices.Contains(h.Names, nodeName) {
		h.Node = nodeName
	}
}

// DropClaims drops the addresses at which the host was not found, and which its machine does not have:
// whoever names a host in spec, has its name in DNS, or has the bastion in front of it, says any address.
func (h *Host) DropClaims(machine *machinev1beta1.Machine) {
	proven := &Host{Object: h.Object, Sources: map[string]string{}}
	for _, address := range h.Object.Status.ProvenAt() {
		proven.add(address, "")
	}
	proven.addMachine(machine)
	h.Addresses = slices.DeleteFunc(h.Addresses, func(a netip.Addr) bool {
		claimed := !slices.Contains(proven.Addresses, a)
		if claimed {
			delete(h.Sources, a.String())
		}
		return claimed
	})
}

// Claim adds the name that the host itself says its node will have, unless it is that of something else.
func (h *Host) Claim(nodeName string) {
	h.add(nodeName, "the host")
	if node := h.Object.Status.Node; node != nil && node.Name == nodeName && slices.Contains(h.Names, nodeName) {
		h.Node = nodeName
	}
}

// Drop removes a name.
func (h *Host) Drop(name string) {
	h.Names = slices.DeleteFunc(h.Names, func(n string) bool { return n == name })
	delete(h.Sources, name)
}
