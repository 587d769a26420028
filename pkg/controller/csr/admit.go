// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// admit says why the host of an instance must not become that node. Where there is a Node of that name
// that it is not proven to be, or a Machine whose Node is to have it, it must not: a host calls itself
// as it likes, and must not become the control plane by that. The same where another host can be it.
func (s hosts) admit(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) error {
	candidates, err := s.named(ctx, nodeName, instance)
	if err != nil {
		return err
	}
	var host *identity.Host
	for _, h := range candidates {
		switch {
		case !h.IsNamed(nodeName):
		case h.Object.UID == instance.UID:
			host = h
		case h.Object.Namespace == instance.Namespace:
			return fmt.Errorf("WindowsInstance %s can be Node %s, too: rename one of the hosts", h.Object.Name, nodeName)
		default:
			return fmt.Errorf("%s: rename the host", ambiguousMessage(nodeName))
		}
	}
	if host == nil {
		return fmt.Errorf("%s is no name that the host may have as a Node: rename the host", nodeName)
	}
	node, err := object.Get(ctx, s.client, client.ObjectKey{Name: nodeName}, &corev1.Node{})
	switch {
	case err != nil:
		return err
	case node != nil:
		return admitAs(host, node)
	}
	return s.admitBesideMachines(ctx, host, nodeName)
}

// ambiguousMessage does not name the instances: those who see one may not see those of other namespaces.
func ambiguousMessage(nodeName string) string {
	return fmt.Sprintf("instances in several namespaces can be node %s", nodeName)
}

// admitAs says why a host that joins is not proven to be a Node that exists. What it gets is sent to this
// host alone, over a connection that verified its host key and its
// machine. The Node has to be that of the instance, by its name and because it is that of the machine,
// whose address may have changed since it reported; of a machine that is not known, by the address
// that this connection goes to. And nobody may speak for the Node, as its kubelet has lost its
// certificate.
func admitAs(h *identity.Host, node *corev1.Node) error {
	known := h.Object.Status.Node
	switch {
	case h.Node != node.Name || known == nil || known.UID != node.UID:
		return fmt.Errorf("the host calls itself %s, but there is a Node of that name, which is not that of the host: "+
			"rename the host, or delete the Node if it is a left-over", node.Name)
	case h.Object.Status.MachineID == "" && !reports(node, h.Object.Status.ProvenAt()):
		return fmt.Errorf("the host calls itself %s, but the Node of that name does not report an address that the host is known to have: "+
			"if it is a left-over of this host, delete it", node.Name)
	case object.KubeletReports(node):
		return fmt.Errorf("a kubelet reports for Node %s: that one has a certificate", node.Name)
	}
	return nil
}

// admitBesideMachines says why a host must not become a Node that does not exist yet: a Machine that is not
// that of the host is about to become it, such as one of the control plane that is replaced.
func (s hosts) admitBesideMachines(ctx context.Context, h *identity.Host, nodeName string) error {
	machine, err := identity.MachineNamed(ctx, s.client, h.Object, nodeName)
	if machine == nil || err != nil {
		return err
	}
	return fmt.Errorf("the host calls itself %s, but that is the name of Machine %s/%s, which is not that of the host: "+
		"rename the host", nodeName, machine.Namespace, machine.Name)
}

// reports says whether a Node reports one of the addresses.
func reports(node *corev1.Node, addresses []string) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return slices.Contains(addresses, identity.CanonicalAddress(a.Address))
	})
}
