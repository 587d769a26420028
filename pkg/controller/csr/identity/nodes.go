// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package identity

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Nodes answers whose Node a Node is. How sure the answer is differs: [Nodes.Find] says
// which Node an instance has by what the Node reports, and [Nodes.Verify] whether that is
// enough for what is to be done with it.
type Nodes struct {
	// Reader is a cache. For Find it has the indexes [NodeIndex] and [InstanceIndex].
	Reader client.Reader
	// Resolver confirms names of Nodes. Find does not use it.
	Resolver Resolver
	// Namespace is that of the operator: of two instances of the same host, one in this
	// namespace stands for it, and what others claim of their hosts does not count, see
	// [Host.DropClaims]. Required.
	Namespace string
}

// Verdict is the answer of [Nodes.Verify].
type Verdict string

const (
	// Proven means that somebody else than the kubelet knows the host by the name of the
	// Node, see the comment of the package, and no other instance has the Node.
	Proven Verdict = "Proven"
	// Unconfirmed means that the host has the Node by the addresses that the Node reports, and by
	// nothing else.
	Unconfirmed Verdict = "Unconfirmed"
	// Shared means that another instance has the Node, too. Those who see the one need not be allowed
	// to see the other.
	Shared Verdict = "Shared"
)

// Find returns the Node of an instance by what the Node reports of itself, nil if there is
// none, and the instance that the Node belongs to before it does to this one, nil if there
// is none. Both are those of the cache, and only to be read.
func (n Nodes) Find(ctx context.Context, instance *v1alpha1.WindowsInstance) (*corev1.Node, *v1alpha1.WindowsInstance, error) {
	node, err := findNode(ctx, n.Reader, instance, n.Namespace)
	if err != nil || node == nil {
		return nil, nil, err
	}
	owner, err := findOwner(ctx, n.Reader, node, instance, n.Namespace)
	if err != nil {
		return nil, nil, err
	}
	return node, owner, nil
}

// Host returns what is known of the host of an instance from others than its kubelet. Its
// Node is set only if that is confirmed, for which DNS is asked if nodeName is [Host.Disputed]. The error
// is [ErrLookingUp] if that has not answered yet.
func (n Nodes) Host(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (*Host, error) {
	machine, err := Machine(ctx, n.Reader, instance)
	if err != nil {
		return nil, err
	}
	h := New(instance, machine)
	if instance.Namespace != n.Namespace {
		h.DropClaims(machine)
	}
	if h.Disputed(nodeName) {
		if err := h.lookUp(ctx, n.Resolver, nodeName); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Verify says whether the Node of an instance, which has that name, is that of its host and
// of no other instance.
func (n Nodes) Verify(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (Verdict, error) {
	h, err := n.Host(ctx, instance, nodeName)
	if err != nil {
		return "", err
	}
	if h.Node != nodeName {
		return Unconfirmed, nil
	}
	var instances v1alpha1.WindowsInstanceList
	if err := n.Reader.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing the instances: %w", err)
	}
	for i := range instances.Items {
		if other := &instances.Items[i]; other.UID != instance.UID && MayOwn(other) && other.Status.Node.Name == nodeName {
			return Shared, nil
		}
	}
	return Proven, nil
}

// MayOwn says whether the Node of an instance can be ours, whatever the Node is like.
func MayOwn(instance *v1alpha1.WindowsInstance) bool {
	return instance.DeletionTimestamp.IsZero() && !instance.Spec.Paused && instance.Status.Node != nil &&
		slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer)
}

// At returns the Nodes that report an address, but for those of other instances whose hosts were found elsewhere: what addresses a Node
// has is written by whoever has the account of its host. They are those of the cache, and only to be read.
func (n Nodes) At(ctx context.Context, instance *v1alpha1.WindowsInstance, address string) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := n.Reader.List(ctx, &nodes, client.MatchingFields{NodeIndex: addressIdentity(address)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the Nodes at %s: %w", address, err)
	}
	var at []corev1.Node
	for i := range nodes.Items {
		elsewhere, err := foundElsewhere(ctx, n.Reader, &nodes.Items[i], instance, address)
		if err != nil {
			return nil, err
		}
		if !elsewhere {
			at = append(at, nodes.Items[i])
		}
	}
	return at, nil
}

// foundElsewhere says whether a Node is that of another instance, whose host was logged in to at other addresses only.
func foundElsewhere(ctx context.Context, reader client.Reader, node *corev1.Node, instance *v1alpha1.WindowsInstance, address string) (bool, error) {
	var others v1alpha1.WindowsInstanceList
	if err := reader.List(ctx, &others, client.MatchingFields{InstanceIndex: ofNodeUID(node.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("looking for the instance of Node %s: %w", node.Name, err)
	}
	elsewhere := false
	for i := range others.Items {
		other := &others.Items[i]
		if known := other.Status.Node; other.UID == instance.UID || known == nil || known.UID != node.UID || !other.Status.Identified() {
			continue
		}
		if slices.ContainsFunc(other.Status.FoundAt(), func(a string) bool { return CanonicalAddress(a) == CanonicalAddress(address) }) {
			return false, nil
		}
		elsewhere = true
	}
	return elsewhere, nil
}

// findNode returns the Node of an instance, nil if there is none: the one that it keeps, see
// [keepsNode], else the one with its
// provider ID, else the one that it had, if its host is known, else the one with one of its
// addresses. A Node that belongs to
// another machine of the provider is not it, even with the same address, which
// may have been given to another machine since. Neither is one that does not run Windows,
// whoever has its address or provider ID in an instance: what may be done with the Node of
// an instance must not be possible with the control plane. What an instance in another namespace than
// that of the operator says of its host does not suffice: the Node has to be where the host was found.
func findNode(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance, home string) (*corev1.Node, error) {
	for _, id := range OfInstance(instance) {
		var nodes corev1.NodeList
		if err := reader.List(ctx, &nodes, client.MatchingFields{NodeIndex: id}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("looking for the Node with %s: %w", id, err)
		}
		if node := chooseNode(nodes.Items, instance, instance.Namespace == home); node != nil {
			return node, nil
		}
	}
	return nil, nil //nolint:nilnil // no Node is an ordinary answer
}

// chooseNode prefers the Node that was found before, then one that has a name of the host, else
// the first by name, so that the answer does not change from call to call. claims: what the spec says
// of the host suffices.
func chooseNode(nodes []corev1.Node, instance *v1alpha1.WindowsInstance, claims bool) *corev1.Node {
	var chosen *corev1.Node
	host, keeps := New(instance, nil), keepsNode(instance)
	changed := instance.Status.MachineID != "" && instance.Status.MayHaveChangedHost()
	for i := range nodes {
		node := &nodes[i]
		// Empty where the kubelet has not said yet.
		if system := node.Status.NodeInfo.OperatingSystem; system != "" && system != string(corev1.Windows) {
			continue
		}
		known := instance.Status.Node
		if known != nil && known.UID == node.UID && keeps {
			return node
		}
		if v1alpha1.OtherProviderID(node.Spec.ProviderID, instance.Spec.ProviderID) {
			continue
		}
		if known != nil && known.UID == node.UID {
			return node
		}
		if changed && onlyByProvider(node, host) {
			continue
		}
		if !claims && !isAt(node, instance) || instance.Status.Bastion != "" && !mayBeBehindBastion(node, host, claims) {
			continue
		}
		if chosen == nil || host.IsNamed(node.Name) && !host.IsNamed(chosen.Name) ||
			host.IsNamed(node.Name) == host.IsNamed(chosen.Name) && node.Name < chosen.Name {
			chosen = node
		}
	}
	return chosen
}

// onlyByProvider says whether nothing but spec.providerID connects a Node to a host: no address at which the host may be, and no name of
// it. Of a host on which something of ours is that does not suffice: its instance may name another machine since.
func onlyByProvider(node *corev1.Node, host *Host) bool {
	ids := OfNode(node)
	return !host.IsNamed(node.Name) && !slices.ContainsFunc(addressesOf(host.Object), func(a string) bool { return slices.Contains(ids, addressIdentity(a)) })
}

// mayBeBehindBastion says whether a Node may be the host of an instance that was found through a bastion. Its addresses are
// those of another network, in which they may be those of other hosts, so that something else has to say it, too: the name, or
// the provider. And they are what who has the bastion says. So without claims the host has to be joining by that name, which it
// was given a certificate for, or the Node is labeled as that of a host of the namespace, which no kubelet can do.
func mayBeBehindBastion(node *corev1.Node, host *Host, claims bool) bool {
	return (host.IsNamed(node.Name) || v1alpha1.SameProviderID(node.Spec.ProviderID, host.Object.Spec.ProviderID)) &&
		(claims || node.Name == joinsAs(host.Object) || node.Labels[v1alpha1.NamespaceLabel] == host.Object.Namespace)
}

// isAt says whether a Node reports an IP address at which the host of an instance was found, or is said to
// be, where that is not recorded.
func isAt(node *corev1.Node, instance *v1alpha1.WindowsInstance) bool {
	found := instance.Status.FoundAt()
	if instance.Status.HostIP == "" {
		found = addressesOf(instance)
	}
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		_, err := netip.ParseAddr(a.Address)
		return err == nil && slices.ContainsFunc(found, func(address string) bool { return CanonicalAddress(address) == CanonicalAddress(a.Address) })
	})
}

// mayOwn says whether an instance can have a Node that keeps another one off it: see [StandsFor].
func mayOwn(other, instance *v1alpha1.WindowsInstance, home string) bool {
	return other.Namespace == instance.Namespace || other.Namespace == home || other.Status.Identified()
}

// findOwner returns the instance that a Node belongs to before it does to the given one,
// nil if there is none. Without it, one more instance for the address of a host, with
// another port or through another name, would make its Node everybody's who may make
// instances: to drain it, to configure its host twice, and to delete it.
func findOwner(ctx context.Context, reader client.Reader, node *corev1.Node, instance *v1alpha1.WindowsInstance, home string) (*v1alpha1.WindowsInstance, error) {
	for _, id := range OfNode(node) {
		var others v1alpha1.WindowsInstanceList
		if err := reader.List(ctx, &others, client.MatchingFields{InstanceIndex: id}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("looking for other instances with %s: %w", id, err)
		}
		for i := range others.Items {
			other := &others.Items[i]
			if known := other.Status.Node; other.UID != instance.UID && known != nil && known.UID == node.UID && mayOwn(other, instance, home) && first(other, instance, home) {
				return other, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // none is the ordinary answer
}
