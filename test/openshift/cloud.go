// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// uninitializedTaint is put on its Node by a kubelet with --cloud-provider=external.
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// VirtualMachine is what a cloud knows of one.
type VirtualMachine struct {
	// Name that the cloud has for it. That of a Machine is the name of the Machine.
	Name string
	// PrivateDNSName is what AWS calls it in its network.
	PrivateDNSName string
	// ProviderID is that of the Node. Empty: that which the cloud gives by the address, see [Cloud.ProviderID].
	ProviderID string
	// Address is that of its host, by which it is that of a Machine.
	Address string
}

// Cloud stands in for the one that a cluster runs on, with its cloud controller manager: that completes Nodes of its own virtual
// machines, and takes from them the taint by which their kubelets say that nobody has. It writes the provider ID of a Node that has none; the
// real one writes their addresses and zone as well. It is safe for concurrent use.
type Cloud struct {
	// Platform is that of the cluster. Empty: virtual machines have no provider ID but one that they are run with.
	Platform configv1.PlatformType

	mu       sync.Mutex
	machines []VirtualMachine
}

// Run adds a virtual machine.
func (c *Cloud) Run(vm VirtualMachine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	vm.ProviderID = cmp.Or(vm.ProviderID, c.ProviderID(vm.Address))
	c.machines = append(c.machines, vm)
}

// ProviderID is that of the virtual machine with an address of IPv4, also before it runs. Those of Azure and GCP end with a name that their
// Machine would have. Empty: the platform has none, or it is no such address.
func (c *Cloud) ProviderID(address string) string {
	format, ip := platforms[c.Platform].machineID, net.ParseIP(address).To4()
	if format == "" || ip == nil {
		return ""
	}
	return fmt.Sprintf(format, hex.EncodeToString(ip))
}

// known are the virtual machines, under the names of the Machines that they are of.
func (c *Cloud) known(machines []machinev1beta1.Machine) []VirtualMachine {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.machines)
	for i := range all {
		of := slices.IndexFunc(machines, func(m machinev1beta1.Machine) bool {
			return slices.ContainsFunc(m.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP && a.Address == all[i].Address })
		})
		if of >= 0 {
			all[i].Name = machines[of].Name
		}
	}
	return all
}

// initialize does what the cloud controller manager does with a Node. One that is of no virtual machine keeps the taint, and is tried
// again. On Azure each Node is completed from its own host, and elsewhere there may be no such program.
func (c *Cloud) initialize(ctx context.Context, kube client.Client, node *corev1.Node) error {
	infrastructure := &configv1.Infrastructure{}
	if err := kube.Get(ctx, client.ObjectKey{Name: clusterName}, infrastructure); err != nil {
		return err
	}
	uninitialized := func(t corev1.Taint) bool { return t.Key == uninitializedTaint }
	of := platforms[infrastructure.Status.PlatformStatus.Type]
	if !of.externalCloud || of.nodeManager || !slices.ContainsFunc(node.Spec.Taints, uninitialized) {
		return nil
	}
	var machines machinev1beta1.MachineList
	if err := kube.List(ctx, &machines); err != nil {
		return err
	}
	known := c.known(machines.Items)
	i := slices.IndexFunc(known, func(vm VirtualMachine) bool { return is(node, vm, of.nodeName) })
	if i < 0 {
		return fmt.Errorf("no virtual machine is that of Node %s with provider ID %q", node.Name, node.Spec.ProviderID)
	}
	// A list is replaced as a whole: others write it, too.
	before := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, uninitialized)
	node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, known[i].ProviderID)
	return kube.Patch(ctx, node, before)
}

// is says whether a Node is that of a virtual machine: by its provider ID if it has one, else by its name.
func is(node *corev1.Node, vm VirtualMachine, named func(node string, vm VirtualMachine) bool) bool {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID == vm.ProviderID
	}
	return named(node.Name, vm)
}

// byPrivateDNSName is how k8s.io/cloud-provider-aws finds the virtual machine of a Node: findInstanceByNodeName of its package v1.
func byPrivateDNSName(node string, vm VirtualMachine) bool {
	return vm.PrivateDNSName != "" && node == vm.PrivateDNSName
}

// byFirstLabel is how that of GCP does it, whose Nodes are called by the whole name of their virtual machines: canonicalizeInstanceName.
// That of vSphere asks for the virtual machine whose guest calls itself like the Node, with a domain or without; here each is called as
// its virtual machine is.
func byFirstLabel(node string, vm VirtualMachine) bool {
	label, _, _ := strings.Cut(node, ".")
	return label == vm.Name
}

// byName is what is left of how that of Nutanix does it, which asks for the UUID of the system that the Node says: hosts have none
// here, and a Machine whose Node has another name would not be approved its certificate.
func byName(node string, vm VirtualMachine) bool { return node == vm.Name }
