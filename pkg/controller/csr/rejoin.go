// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Reasons to refuse the first certificate of a host whose name is that of a Node.
const (
	// reasonNodeNameTaken: the Node is not that of the host.
	reasonNodeNameTaken policy.Reason = "NodeNameTaken"
	// reasonNodeElsewhere: the Node does not report an address of the host, whose machine is not known.
	reasonNodeElsewhere policy.Reason = "NodeElsewhere"
	// reasonMachineNameTaken: the Node of that name is to be that of a Machine, which is not the host.
	reasonMachineNameTaken policy.Reason = "MachineNameTaken"
	// reasonNodeReporting: a kubelet with a certificate speaks for the Node.
	reasonNodeReporting policy.Reason = "NodeReporting"
)

// objection is why a host does not get the first certificate of a Node that exists. Nil: it does.
type objection struct {
	reason  policy.Reason
	message string
}

// objectionTo says why a host that joins is not proven to be a Node that exists. The token of
// the request was given to this host alone, over a connection that verified its host key and its
// machine. The Node has to be that of the instance, by its name and because it is that of the machine,
// whose address may have changed since it reported; of a machine that is not known, by the address
// that this connection goes to. And nobody may speak for the Node, as its kubelet has lost its
// certificate.
func objectionTo(h *identity.Host, node *corev1.Node) *objection {
	known := h.Object.Status.Node
	switch {
	case h.Node != node.Name || known == nil || known.UID != node.UID:
		return &objection{reasonNodeNameTaken, fmt.Sprintf("the host calls itself %s and is joining, but there is a Node of that name, which is not that of the host: "+
			"rename the host, or delete the Node if it is a left-over", node.Name)}
	case h.Object.Status.MachineID == "" && !reports(node, h.Object.Status.FoundAt()):
		return &objection{reasonNodeElsewhere, fmt.Sprintf("the host is joining as node %s, which does not report an address that the host is known to have: "+
			"if the Node is a left-over of this host, delete it", node.Name)}
	case object.KubeletReports(node):
		return &objection{reasonNodeReporting, fmt.Sprintf("the host is joining as node %s, for which a kubelet reports: that one has a certificate", node.Name)}
	}
	return nil
}

// objectionOfMachines says why a host must not become a Node that does not exist yet: a Machine that is not
// that of the host is about to become it, such as one of the control plane that is replaced.
func (r *Reconciler) objectionOfMachines(ctx context.Context, h *identity.Host, nodeName string) (*objection, error) {
	machine, err := identity.MachineNamed(ctx, r.client, h.Object, nodeName)
	if machine == nil || err != nil {
		return nil, err
	}
	return &objection{reasonMachineNameTaken, fmt.Sprintf("the host calls itself %s and is joining, but that is the name of Machine %s/%s, which is not that of the host: "+
		"rename the host", nodeName, machine.Namespace, machine.Name)}, nil
}

// reports says whether a Node reports one of the addresses.
func reports(node *corev1.Node, addresses []string) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return slices.Contains(addresses, identity.CanonicalAddress(a.Address))
	})
}
