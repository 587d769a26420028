// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"net/netip"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	policy "github.com/openshift/windows-instance-api/pkg/csr"
)

// kindMachine is the kind of the owners of instances that come from Machines.
const kindMachine = "Machine"

// host is an instance as requests are decided by.
type host struct {
	policy.Instance

	instance *windowsv1alpha1.WindowsInstance
	// sources say of each name and address who says that the host has it.
	sources map[string]string
}

// newHost collects what is known of a host other than from its kubelet. Machine is the
// one behind the host, nil if there is none.
func newHost(instance *windowsv1alpha1.WindowsInstance, machine *machinev1beta1.Machine) *host {
	h := &host{
		Instance: policy.Instance{ID: client.ObjectKeyFromObject(instance).String()},
		instance: instance, sources: map[string]string{},
	}
	h.add(instance.Spec.Address, "spec.address")
	for _, address := range instance.Status.Addresses {
		h.add(address, "status.addresses")
	}
	if machine != nil {
		for _, address := range machine.Status.Addresses {
			if useful(address) {
				h.add(address.Address, "Machine "+machine.Name)
			}
		}
	}
	if system := instance.Status.System; system != nil {
		h.add(system.Hostname, "status.system.hostname")
		h.add(system.FQDN, "status.system.fqdn")
	}
	if node := instance.Status.Node; node != nil && slices.Contains(h.Names, node.Name) {
		h.Node = node.Name
	}
	return h
}

// useful says whether an address of a Machine is that of one host: a host that got none
// from DHCP calls itself 169.254.x.y, and every host has one in fe80::/10.
func useful(address corev1.NodeAddress) bool {
	addr, err := netip.ParseAddr(address.Address)
	return err != nil || addr.IsGlobalUnicast()
}

// add adds a name or an address.
func (h *host) add(value, source string) {
	if addr, err := netip.ParseAddr(value); err == nil {
		addr = canonical(addr)
		if !slices.Contains(h.Addresses, addr) {
			h.Addresses = append(h.Addresses, addr)
			h.sources[addr.String()] = source
		}
		return
	}
	for _, name := range policy.HostNames(value) {
		if !slices.Contains(h.Names, name) && !isServiceName(name) {
			h.Names = append(h.Names, name)
			h.sources[name] = source
		}
	}
}

// canonical is the spelling of an address that those of certificates are compared with.
func canonical(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// isServiceName says whether a name means something else than a host inside of a
// cluster. A host can call itself as it likes; what it serves under must not make it the
// API server or a Service to others.
func isServiceName(name string) bool {
	labels := strings.Split(name, ".")
	return labels[0] == "localhost" || labels[0] == "kubernetes" || slices.Contains(labels[1:], "svc")
}

// disputed says whether the instance has the Node of that name only by the addresses
// that the kubelet of that Node reports.
func (h *host) disputed(nodeName string) bool {
	return h.Node == "" && h.instance.Status.Node != nil && h.instance.Status.Node.Name == nodeName
}

// confirm makes nodeName, which is disputed, the Node of the host, given the addresses
// that DNS has for the name, if one of them is that of the host.
func (h *host) confirm(nodeName string, addresses []netip.Addr) {
	if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return slices.Contains(h.Addresses, canonical(a)) }) {
		return
	}
	h.add(nodeName, "DNS")
	if slices.Contains(h.Names, nodeName) {
		h.Node = nodeName
	}
}

// drop takes a name away.
func (h *host) drop(name string) {
	h.Names = slices.DeleteFunc(h.Names, func(n string) bool { return n == name })
	delete(h.sources, name)
}

// absolute returns the name of a Node as DNS has it, so that no search path is tried:
// in those of a cluster, users make names as they like. Names of one label have no
// meaning outside of search paths.
func absolute(nodeName string) (string, bool) {
	return nodeName + ".", strings.Contains(nodeName, ".")
}

// identity is the part of an instance that hosts are recognized by.
type identity struct {
	address        string
	addresses      []string
	hostname, fqdn string
	node           string
	owner          *metav1.OwnerReference
	deleted        bool
}

func identityOf(instance *windowsv1alpha1.WindowsInstance) identity {
	id := identity{
		address: instance.Spec.Address, addresses: instance.Status.Addresses,
		owner: machineOf(instance), deleted: !instance.DeletionTimestamp.IsZero(),
	}
	if system := instance.Status.System; system != nil {
		id.hostname, id.fqdn = system.Hostname, system.FQDN
	}
	if node := instance.Status.Node; node != nil {
		id.node = node.Name
	}
	return id
}

// machineOf returns the reference to the Machine that an instance comes from, nil if it
// comes from none.
func machineOf(instance *windowsv1alpha1.WindowsInstance) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(instance)
	if owner == nil || owner.Kind != kindMachine || owner.APIVersion != machinev1beta1.SchemeGroupVersion.String() {
		return nil
	}
	return owner
}
