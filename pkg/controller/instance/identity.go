// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// indexEndpoint is the index of the cache that holds where an instance is contacted, see [identity.Endpoints]. Its name is long as all
// controllers of a process share them.
const indexEndpoint = "instance-controller/endpoint"

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
		{&corev1.Node{}, identity.NodeIndex, func(o client.Object) []string {
			return identity.OfNode(o.(*corev1.Node)) //nolint:forcetypeassert // the indexer gives what is registered
		}},
		{&v1alpha1.WindowsInstance{}, identity.InstanceIndex, func(o client.Object) []string {
			return identity.OfInstance(o.(*v1alpha1.WindowsInstance)) //nolint:forcetypeassert // see above
		}},
		{&v1alpha1.WindowsInstance{}, indexEndpoint, func(o client.Object) []string {
			return identity.Endpoints(o.(*v1alpha1.WindowsInstance)) //nolint:forcetypeassert // see above
		}},
		{&v1alpha1.WindowsInstance{}, identity.MachineIndex, func(o client.Object) []string {
			return identity.OfMachine(o.(*v1alpha1.WindowsInstance)) //nolint:forcetypeassert // see above
		}},
		{&v1alpha1.WindowsInstance{}, indexHostname, func(o client.Object) []string {
			return hostnamesOf(o.(*v1alpha1.WindowsInstance)) //nolint:forcetypeassert // see above
		}},
		{&v1alpha1.WindowsInstance{}, object.PoolIndex, object.IndexPool},
	}
}

// isLiteral says whether an address needs no DNS.
func isLiteral(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}

// findDuplicate returns the instance that stands for the host of the given one in
// its place, nil if there is none. addresses are those it stands for, as far as
// they are known; nil means those of its status.
func findDuplicate(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance, addresses []string, home string) (*v1alpha1.WindowsInstance, error) {
	if addresses != nil {
		changed := *instance // shares all else, which is only read
		changed.Status.Addresses = addresses
		instance = &changed
	}
	others, err := sharing(ctx, reader, instance)
	if err != nil {
		return nil, err
	}
	var first *v1alpha1.WindowsInstance
	for _, other := range others {
		if sharesHost(other, instance) && identity.StandsFor(other, instance, home) && (first == nil || identity.Precedes(other, first, home)) {
			first = other
		}
	}
	return first, nil
}

// sharing returns the other instances that may have the host of an instance, by the indexes of
// [SetupWithManager]; one may be there twice. They are only to be read: those of the cache are shared.
func sharing(ctx context.Context, reader client.Reader, instance *v1alpha1.WindowsInstance) ([]*v1alpha1.WindowsInstance, error) {
	var out []*v1alpha1.WindowsInstance
	for field, ids := range map[string][]string{
		indexEndpoint:         identity.Endpoints(instance),
		identity.MachineIndex: identity.OfMachine(instance), // a host may have several addresses
	} {
		for _, id := range ids {
			var found v1alpha1.WindowsInstanceList
			if err := reader.List(ctx, &found, client.MatchingFields{field: id}, client.UnsafeDisableDeepCopy); err != nil {
				return nil, fmt.Errorf("looking for other instances of %s: %w", id, err)
			}
			for i := range found.Items {
				if other := &found.Items[i]; other.UID != instance.UID {
					out = append(out, other)
				}
			}
		}
	}
	return out, nil
}

// sharesHost says whether two instances are contacted at the same endpoint, or have the same machine.
func sharesHost(other, instance *v1alpha1.WindowsInstance) bool {
	at := identity.Endpoints(instance)
	return instance.Status.SameHost(&other.Status) ||
		slices.ContainsFunc(identity.Endpoints(other), func(endpoint string) bool { return slices.Contains(at, endpoint) })
}

// takesOver says whether a host was handed over to an instance by one that was deleted and is
// not known to be gone yet.
func takesOver(instance, from *v1alpha1.WindowsInstance) bool {
	node, theirs := instance.Status.Node, from.Status.Node
	return !from.DeletionTimestamp.IsZero() && node != nil && theirs != nil && node.UID == theirs.UID &&
		instance.Status.MachineID != "" && instance.Status.MachineID == from.Status.MachineID
}

// describeDuplicate says which other instance stands for the host, and what to do.
func describeDuplicate(instance, other *v1alpha1.WindowsInstance, home string) string {
	name, named := nameOf(other, instance, home)
	switch {
	case !named:
		return fmt.Sprintf("%s already represents this host and port. %s, or correct spec.address, spec.port or spec.providerID.", name, removeThis(instance))
	case !other.DeletionTimestamp.IsZero():
		return fmt.Sprintf("%s, which was deleted, represents this host and port (%s) until its host is clean. Its condition Removed shows the progress.", name, host.Endpoint(other))
	case instance.Status.SameHost(&other.Status) && !slices.ContainsFunc(identity.Endpoints(instance), func(at string) bool { return slices.Contains(identity.Endpoints(other), at) }):
		return fmt.Sprintf("%s already represents this host (%s): the machine (%s) and its host key are the same. %s.%s "+
			"If they are two hosts that were made from one image, give this one host keys of its own: stop the service sshd, delete C:\\ProgramData\\ssh\\ssh_host_*, start it again, and then: kubectl windows trust-host-key %s -n %s",
			name, host.Endpoint(other), instance.Status.MachineID, removeThis(instance), notThat(other), instance.Name, instance.Namespace)
	}
	return fmt.Sprintf("%s already represents this host and port (%s). %s, or correct spec.address, spec.port or spec.providerID.%s", name, host.Endpoint(other), removeThis(instance), notThat(other))
}

// describeOwned is describeDuplicate for a host whose Node another instance has.
func describeOwned(instance, other *v1alpha1.WindowsInstance, home string) string {
	name, named := nameOf(other, instance, home)
	if !named {
		return fmt.Sprintf("%s already has the Node with the address of this host. %s, or correct spec.address.", name, removeThis(instance))
	}
	return fmt.Sprintf("%s already has Node %s, which has the address of this host. %s, or correct spec.address.%s", name, other.Status.Node.Name, removeThis(instance), notThat(other))
}

// nameOf is how an instance is called in a message of another one: by its name only to those who
// may know of it, as those of the operator do.
func nameOf(instance, in *v1alpha1.WindowsInstance, home string) (name string, named bool) {
	switch {
	case instance.Namespace == in.Namespace:
		return "Instance " + instance.Name, true
	case in.Namespace == home:
		return "Instance " + instance.Namespace + "/" + instance.Name, true
	}
	return "An instance in another namespace", false
}

// removeThis is the beginning of a sentence about how to remove an instance that does not stand
// for its host.
func removeThis(instance *v1alpha1.WindowsInstance) string {
	remove := "Delete this instance"
	if source := instance.Annotations[v1alpha1.SourceAnnotation]; source != "" {
		remove = fmt.Sprintf("Remove this instance from its source (%s)", source)
	}
	return remove + ", which leaves the host as it is"
}

// notThat keeps people from deleting the instance that stands for the host. Empty: nothing of
// ours is on the host that would go with it.
func notThat(instance *v1alpha1.WindowsInstance) string {
	if !instance.Status.MayHaveChangedHost() && !instance.LostStatus() {
		return ""
	}
	return fmt.Sprintf(" Do not delete instance %s, because that may remove the host from the cluster. For this instance to represent the host instead, delete that one after: "+
		`kubectl patch wi %s -n %s --type=merge -p '{"spec":{"removal":{"policy":"%s"}}}'`, instance.Name, instance.Name, instance.Namespace, v1alpha1.RemovalAbandon)
}
