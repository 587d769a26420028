// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
)

// Resolver looks up names in DNS. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns the addresses of a name. Network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// lookUp asks DNS whether the host has the name of the Node, which only the Node says so
// far: platforms name Nodes as their DNS does, whatever the host calls itself. DNS that
// does not answer confirms nothing; ask again later. The error is [ErrLookingUp].
func (h *Host) lookUp(ctx context.Context, resolver Resolver, nodeName string) error {
	name, ok := absolute(nodeName)
	if !ok {
		return nil
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", name)
	switch {
	case errors.Is(err, ErrLookingUp):
		return err
	case err != nil:
		log.FromContext(ctx).V(2).Info("DNS does not confirm the name of a Node", "node", nodeName, "instance", klog.KObj(h.Object), "cause", err.Error())
	default:
		h.confirm(nodeName, addresses)
	}
	return nil
}

// absolute returns the name of a Node as DNS has it, so that no search path is tried:
// in those of a cluster, users make names as they like. Names of one label have no
// meaning outside of search paths.
func absolute(nodeName string) (string, bool) {
	return nodeName + ".", strings.Contains(nodeName, ".")
}

// MachineOf returns the reference to the Machine that an instance comes from, nil if it
// comes from none.
func MachineOf(instance *v1alpha1.WindowsInstance) *metav1.OwnerReference {
	return origin.Machine(instance)
}

// MachineNamed returns a Machine whose Node may have that name and which is not that of an instance, nil
// if there is none. A Machine is that of an instance that comes from it, or whose host was found at one of
// its addresses. clusterAPI has those of Cluster API. The error is [capi.ErrNotKnown] as long as nobody knows these.
func MachineNamed(ctx context.Context, reader client.Reader, clusterAPI *capi.Machines, instance *v1alpha1.WindowsInstance, nodeName string) (*machinev1beta1.Machine, error) {
	var machines machinev1beta1.MachineList
	if err := reader.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil && !meta.IsNoMatchError(err) { // there may be no Machine API
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	for i := range machines.Items {
		if named(&machines.Items[i], nodeName) && !isThatOf(&machines.Items[i], instance) {
			return &machines.Items[i], nil
		}
	}
	others, err := clusterAPI.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		also := slices.ContainsFunc(machines.Items, func(m machinev1beta1.Machine) bool { return other.IsAlso(&m) })
		if machine := other.AsOfMachineAPI(); !also && named(machine, nodeName) && !isThatOf(machine, instance) {
			return machine, nil
		}
	}
	return nil, nil //nolint:nilnil // none is the ordinary answer
}

// named says whether the Node of a Machine may have that name, which may be the name of the Machine with the DNS suffix of its host.
func named(machine *machinev1beta1.Machine, nodeName string) bool {
	if slices.Contains(policy.HostNames(nodeName), machine.Name) || machine.Status.NodeRef != nil && machine.Status.NodeRef.Name == nodeName {
		return true
	}
	return slices.ContainsFunc(machine.Status.Addresses, func(a corev1.NodeAddress) bool { return slices.Contains(policy.HostNames(a.Address), nodeName) })
}

// isThatOf says whether a Machine is that of an instance.
func isThatOf(machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance) bool {
	if owner := MachineOf(instance); owner != nil && owner.UID == machine.UID {
		return true
	}
	return slices.ContainsFunc(machine.Status.Addresses, func(a corev1.NodeAddress) bool {
		return slices.Contains(instance.Status.ProvenAt(), CanonicalAddress(a.Address))
	})
}

// Machine reads the Machine that an instance comes from, nil if there is none. Where that is one of Cluster API, the error is
// [capi.ErrNotKnown] as long as nobody knows these.
func Machine(ctx context.Context, reader client.Reader, clusterAPI *capi.Machines, instance *v1alpha1.WindowsInstance) (*machinev1beta1.Machine, error) {
	owner := MachineOf(instance)
	if owner == nil {
		return nil, nil //nolint:nilnil // no Machine is an ordinary answer
	}
	key := client.ObjectKey{Namespace: instance.Namespace, Name: owner.Name}
	if origin.MachineOfMachineAPI(instance) == nil {
		machine, err := clusterAPI.Get(ctx, key)
		if err != nil || machine == nil || machine.UID != owner.UID {
			return nil, err
		}
		return machine.AsOfMachineAPI(), nil
	}
	machine, err := object.Get(ctx, reader, key, &machinev1beta1.Machine{})
	if meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // the Machine API was removed
	}
	if err != nil {
		return nil, err
	}
	if machine == nil || machine.UID != owner.UID {
		return nil, nil //nolint:nilnil // see above
	}
	return machine, nil
}
