// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// Indexes of the cache. Their names are long as all controllers of a process share them.
const (
	// indexNodeIdentity holds what identifies the machine of a Node, see [nodeIdentities].
	indexNodeIdentity = "instance-controller/node-identity"
	// indexInstanceIdentity holds the same of an instance, see [instanceIdentities].
	indexInstanceIdentity = "instance-controller/instance-identity"
	// indexEndpoint holds where an instance is contacted, see [endpoints].
	indexEndpoint = "instance-controller/endpoint"
	// indexPool holds the name of the pool of an instance.
	indexPool = "instance-controller/pool"
)

// indexes are what the reconciler looks objects up by.
func indexes() []struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
} {
	return []struct {
		object  client.Object
		field   string
		extract client.IndexerFunc
	}{
		{&corev1.Node{}, indexNodeIdentity, func(o client.Object) []string {
			return nodeIdentities(o.(*corev1.Node)) //nolint:forcetypeassert // the indexer gives what is registered
		}},
		{&windowsv1alpha1.WindowsInstance{}, indexInstanceIdentity, func(o client.Object) []string {
			return instanceIdentities(o.(*windowsv1alpha1.WindowsInstance)) //nolint:forcetypeassert // see above
		}},
		{&windowsv1alpha1.WindowsInstance{}, indexEndpoint, func(o client.Object) []string {
			return endpoints(o.(*windowsv1alpha1.WindowsInstance), nil) //nolint:forcetypeassert // see above
		}},
		{&windowsv1alpha1.WindowsInstance{}, indexPool, func(o client.Object) []string {
			ref := o.(*windowsv1alpha1.WindowsInstance).Spec.PoolRef //nolint:forcetypeassert // see above
			if ref == nil {
				return nil
			}
			return []string{ref.Name}
		}},
	}
}

// nodeIdentities is what identifies the machine of a Node: its provider ID and its addresses.
func nodeIdentities(node *corev1.Node) []string {
	var ids []string
	if node.Spec.ProviderID != "" {
		ids = append(ids, providerIdentity(node.Spec.ProviderID))
	}
	for _, address := range node.Status.Addresses {
		ids = append(ids, addressIdentity(address.Address))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// instanceIdentities is the same of an instance, the strongest first.
func instanceIdentities(instance *windowsv1alpha1.WindowsInstance) []string {
	var ids []string
	if instance.Spec.ProviderID != "" {
		ids = append(ids, providerIdentity(instance.Spec.ProviderID))
	}
	for _, address := range append(slices.Clone(instance.Status.Addresses), instance.Spec.Address) {
		if id := addressIdentity(address); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func providerIdentity(id string) string { return "provider/" + id }

func addressIdentity(address string) string { return "address/" + canonicalAddress(address) }

// canonicalAddress gives the same host one spelling: IPv6 has many, and DNS
// ignores case and a final dot.
func canonicalAddress(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(address), ".")
}

// isLiteral says whether an address needs no DNS.
func isLiteral(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}

// endpoints is where an instance is contacted, as far as IP addresses are known: those
// given, or else those of its status, and that in its spec. Besides, the machine that it
// says it is: nobody gets at the Node of another instance by naming its machine.
func endpoints(instance *windowsv1alpha1.WindowsInstance, addresses []string) []string {
	if addresses == nil {
		addresses = instance.Status.Addresses
	}
	addresses = slices.Clone(addresses)
	if isLiteral(instance.Spec.Address) {
		addresses = append(addresses, instance.Spec.Address)
	}
	port := strconv.Itoa(int(instance.Spec.Port))
	out := make([]string, 0, len(addresses)+1)
	for _, address := range addresses {
		out = append(out, net.JoinHostPort(canonicalAddress(address), port))
	}
	if id := instance.Spec.ProviderID; id != "" {
		out = append(out, providerIdentity(id))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// findNode returns the Node of an instance, nil if there is none: the one with its
// provider ID, else the one with one of its addresses. A Node that belongs to
// another machine of the provider is not it, even with the same address, which
// may have been given to another machine since. Neither is one that does not run Windows,
// whoever has its address or provider ID in an instance: what may be done with the Node of
// an instance must not be possible with the control plane.
func findNode(ctx context.Context, reader client.Reader, instance *windowsv1alpha1.WindowsInstance) (*corev1.Node, error) {
	for _, id := range instanceIdentities(instance) {
		var nodes corev1.NodeList
		if err := reader.List(ctx, &nodes, client.MatchingFields{indexNodeIdentity: id}); err != nil {
			return nil, fmt.Errorf("looking for the Node with %s: %w", id, err)
		}
		if node := chooseNode(nodes.Items, instance); node != nil {
			return node, nil
		}
	}
	return nil, nil //nolint:nilnil // no Node is an ordinary answer
}

// chooseNode prefers the Node that was found before, else the first by name, so
// that the answer does not change from call to call.
func chooseNode(nodes []corev1.Node, instance *windowsv1alpha1.WindowsInstance) *corev1.Node {
	var chosen *corev1.Node
	for i := range nodes {
		node := &nodes[i]
		// Empty where the kubelet has not said yet.
		if system := node.Status.NodeInfo.OperatingSystem; system != "" && system != string(corev1.Windows) {
			continue
		}
		if wanted := instance.Spec.ProviderID; wanted != "" && node.Spec.ProviderID != "" && node.Spec.ProviderID != wanted {
			continue
		}
		if known := instance.Status.Node; known != nil && known.UID == node.UID {
			return node
		}
		if chosen == nil || node.Name < chosen.Name {
			chosen = node
		}
	}
	return chosen
}

// findDuplicate returns the instance that stands for the host of the given one in
// its place, nil if there is none. addresses are those it stands for, as far as
// they are known; nil means those of its status.
func findDuplicate(ctx context.Context, reader client.Reader, instance *windowsv1alpha1.WindowsInstance, addresses []string, home string) (*windowsv1alpha1.WindowsInstance, error) {
	var first *windowsv1alpha1.WindowsInstance
	for _, at := range endpoints(instance, addresses) {
		var others windowsv1alpha1.WindowsInstanceList
		if err := reader.List(ctx, &others, client.MatchingFields{indexEndpoint: at}); err != nil {
			return nil, fmt.Errorf("looking for other instances at %s: %w", at, err)
		}
		for i := range others.Items {
			other := &others.Items[i]
			if other.UID == instance.UID || !standsFor(other, instance, home) {
				continue
			}
			if first == nil || precedes(other, first, home) {
				first = other
			}
		}
	}
	return first, nil
}

// findOwner returns the instance that a Node belongs to before it does to the given one,
// nil if there is none. Without it, one more instance for the address of a host, with
// another port or through another name, would make its Node everybody's who may make
// instances: to drain it, to configure its host twice, and to delete it.
func findOwner(ctx context.Context, reader client.Reader, node *corev1.Node, instance *windowsv1alpha1.WindowsInstance, home string) (*windowsv1alpha1.WindowsInstance, error) {
	for _, id := range nodeIdentities(node) {
		var others windowsv1alpha1.WindowsInstanceList
		if err := reader.List(ctx, &others, client.MatchingFields{indexInstanceIdentity: id}); err != nil {
			return nil, fmt.Errorf("looking for other instances with %s: %w", id, err)
		}
		for i := range others.Items {
			other := &others.Items[i]
			if known := other.Status.Node; other.UID != instance.UID && known != nil && known.UID == node.UID && standsFor(other, instance, home) {
				return other, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // none is the ordinary answer
}

// standsFor says whether other stands for the host that it has in common with instance.
// One that was deleted and did so before goes on until its host is clean, whoever comes:
// meanwhile nobody else may set the host up.
func standsFor(other, instance *windowsv1alpha1.WindowsInstance, home string) bool {
	if other.DeletionTimestamp.IsZero() {
		return precedes(other, instance, home)
	}
	resolved := meta.FindStatusCondition(other.Status.Conditions, windowsv1alpha1.ConditionResolved)
	duplicate := resolved != nil && resolved.Reason == windowsv1alpha1.ReasonDuplicateHost
	return slices.Contains(other.Finalizers, windowsv1alpha1.HostFinalizer) && !duplicate
}

// precedes says which of two instances of the same host stands for it: one in the
// namespace of the operator before any other, so that nobody takes a host of the cluster
// over by naming its address elsewhere first; then the older one.
func precedes(a, b *windowsv1alpha1.WindowsInstance, home string) bool {
	if aHome, bHome := a.Namespace == home, b.Namespace == home; aHome != bHome {
		return aHome
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if a.Name != b.Name {
		return a.Name < b.Name
	}
	return a.Namespace < b.Namespace
}

// describeDuplicate names the other instance only to those who may know of it.
func describeDuplicate(instance, other *windowsv1alpha1.WindowsInstance) string {
	if other.Namespace != instance.Namespace {
		return "An instance in another namespace already stands for this host and port. Delete this instance, or correct spec.address, spec.port or spec.providerID."
	}
	if !other.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("Instance %s, which was deleted, stands for this host and port (%s) until its host is clean. It is waited for; its condition Removed says how far that is.", other.Name, host.Endpoint(other))
	}
	return fmt.Sprintf("Instance %s already stands for this host and port (%s). Delete one of the two, or correct spec.address, spec.port or spec.providerID.", other.Name, host.Endpoint(other))
}

// describeOwned is describeDuplicate for a host whose Node another instance has.
func describeOwned(instance, other *windowsv1alpha1.WindowsInstance) string {
	if other.Namespace != instance.Namespace {
		return "An instance in another namespace already has the Node with the address of this host. Delete this instance, or correct spec.address."
	}
	return fmt.Sprintf("Instance %s already has Node %s, which has the address of this host. Delete one of the two, or correct spec.address.", other.Name, other.Status.Node.Name)
}
