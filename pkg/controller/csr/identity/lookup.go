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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// kindMachine is the kind of the owners of instances that come from Machines.
const kindMachine = "Machine"

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
	owner := metav1.GetControllerOfNoCopy(instance)
	if owner == nil || owner.Kind != kindMachine || owner.APIVersion != machinev1beta1.SchemeGroupVersion.String() {
		return nil
	}
	return owner
}

// MachineNamed returns a Machine whose Node may have that name and which is not that of an instance, nil
// if there is none. A Machine is that of an instance that comes from it, or whose host was found at one of
// its addresses.
func MachineNamed(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance, nodeName string) (*machinev1beta1.Machine, error) {
	var machines machinev1beta1.MachineList
	if err := reader.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil //nolint:nilnil // there is no Machine API
		}
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	owner := MachineOf(instance)
	for i := range machines.Items {
		machine := &machines.Items[i]
		// A Node may have the name of its Machine with the DNS suffix of its host.
		named := slices.Contains(policy.HostNames(nodeName), machine.Name) || machine.Status.NodeRef != nil && machine.Status.NodeRef.Name == nodeName
		found := owner != nil && owner.UID == machine.UID
		for _, address := range machine.Status.Addresses {
			named = named || slices.Contains(policy.HostNames(address.Address), nodeName)
			found = found || slices.Contains(instance.Status.ProvenAt(), CanonicalAddress(address.Address))
		}
		if named && !found {
			return machine, nil
		}
	}
	return nil, nil //nolint:nilnil // none is the ordinary answer
}

// Machine reads the Machine that an instance comes from, nil if there is none.
func Machine(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance) (*machinev1beta1.Machine, error) {
	owner := MachineOf(instance)
	if owner == nil {
		return nil, nil //nolint:nilnil // no Machine is an ordinary answer
	}
	machine, err := object.Get(ctx, reader, client.ObjectKey{Namespace: instance.Namespace, Name: owner.Name}, &machinev1beta1.Machine{})
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
