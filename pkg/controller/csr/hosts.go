// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// hosts finds the hosts that can be a node.
type hosts struct {
	client client.Client
	// resolver confirms names of Nodes.
	resolver identity.Resolver
	// namespace is that of the operator.
	namespace string
}

func newHosts(c client.Client, namespace string) hosts {
	return hosts{client: c, resolver: &identity.Background{Resolver: net.DefaultResolver}, namespace: namespace}
}

// named returns the hosts that can be the node, and those that are it only as far as
// the node says. joining is an instance whose host has just been asked, and says that it will be the node;
// nil: none has.
func (s hosts) named(ctx context.Context, nodeName string, joining *v1alpha1.WindowsInstance) ([]*identity.Host, error) {
	var instances v1alpha1.WindowsInstanceList
	if err := s.client.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the instances: %w", err)
	}
	nodes := identity.Nodes{Reader: s.client, Resolver: s.resolver, Namespace: s.namespace}
	var hosts, leaving []*identity.Host
	for i := range instances.Items {
		instance := &instances.Items[i]
		joins := joining != nil && instance.UID == joining.UID
		if joins {
			instance = joining
		}
		deleted := !instance.DeletionTimestamp.IsZero()
		if deleted && (joining != nil || !waitsForRemoval(instance)) || !instance.Status.Identified() && instance.Namespace != s.namespace {
			continue // whoever names a host has none by that, and must not make that of others ambiguous
		}
		if !joins && leftToOthers(instance) {
			continue // they approve what their hosts ask for
		}
		if !joins && hostnameTaken(instance) {
			continue // it becomes no Node by that name, and must not make that of the other host ambiguous
		}
		h, err := nodes.Host(ctx, instance, nodeName)
		if err != nil {
			return nil, err
		}
		if joins {
			h.Claim(nodeName)
		}
		// What is not confirmed is refused with a reason that says so, and tried again.
		if !h.IsNamed(nodeName) && !h.Disputed(nodeName) {
			continue
		}
		if keeps, err := s.keptFor(ctx, h, nodeName); err != nil {
			return nil, err
		} else if keeps && !joins {
			continue
		}
		if err := s.dropNamesOfOthers(ctx, h, nodeName); err != nil {
			return nil, err
		}
		if deleted {
			leaving = append(leaving, h)
		} else {
			hosts = append(hosts, h)
		}
	}
	for _, h := range leaving {
		stays, err := s.stillNode(ctx, h, nodeName)
		if err != nil {
			return nil, err
		}
		if stays && !slices.ContainsFunc(hosts, func(other *identity.Host) bool { return s.succeeds(other, h, nodeName) }) {
			hosts = append(hosts, h)
		}
	}
	return s.dropClaims(hosts, nodeName), nil
}

// waitsForRemoval says whether an instance was deleted and the removal of its host has not begun, or waits again as its Node was uncordoned: until
// then, which may be long, it works as ever.
func waitsForRemoval(instance *v1alpha1.WindowsInstance) bool {
	status := &instance.Status
	waits := !status.RemovalBegun() || status.RemovalWaits()
	return slices.Contains(instance.Finalizers, v1alpha1.HostFinalizer) && status.KeptOff() == nil && waits
}

// stillNode says whether the Node of an instance that was deleted is the one that it had.
func (s hosts) stillNode(ctx context.Context, h *identity.Host, nodeName string) (bool, error) {
	if h.Node != nodeName {
		return false, nil
	}
	node, err := object.Get(ctx, s.client, client.ObjectKey{Name: nodeName}, &corev1.Node{})
	return node != nil && node.UID == h.Object.Status.Node.UID, err
}

// succeeds says whether a host has the node of an instance that was deleted, or may be about to take it over: whoever renames an entry
// deletes one instance and makes another.
func (s hosts) succeeds(h, deleted *identity.Host, nodeName string) bool {
	return h.Node == nodeName || h.IsNamed(nodeName) && (h.Object.Namespace == deleted.Object.Namespace || h.Object.Namespace == s.namespace)
}

// leftToOthers says whether the host is left to the Windows Machine Config Operator, which runs, or becomes a Node by others, if at all: it was never
// configured here, and cannot be while inputs are missing, whichever they are. A running operator is one of these; what the kubelets of its hosts ask for can be here before their Nodes are.
func leftToOthers(instance *v1alpha1.WindowsInstance) bool {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionConfigured)
	if c == nil {
		return false
	}
	return c.Reason == v1alpha1.ReasonManagedByWMCO || c.Reason == v1alpha1.ReasonInputsMissing && instance.Status.CurrentRevision == "" && !instance.Status.MayHaveChangedHost()
}

// hostnameTaken says whether another host is the Node by the computer name of the host, or comes before it.
func hostnameTaken(instance *v1alpha1.WindowsInstance) bool {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionPreflightPassed)
	return c != nil && c.Reason == v1alpha1.ReasonHostnameTaken
}

// keptFor says whether the node will be that of a Machine which is not that of the host: it cannot become it, and must not
// keep the host of the Machine from it.
func (s hosts) keptFor(ctx context.Context, h *identity.Host, nodeName string) (bool, error) {
	if h.Node == nodeName {
		return false, nil
	}
	machine, err := identity.MachineNamed(ctx, s.client, h.Object, nodeName)
	return machine != nil, err
}

// dropClaims drops the hosts that only call themselves as the node, in other namespaces than that of the
// instance which has it; before there is one, than that of the operator, if a host there may become it.
// Otherwise a host of somebody else could keep the node from its certificates, or get the first one.
func (s hosts) dropClaims(hosts []*identity.Host, nodeName string) []*identity.Host {
	i := slices.IndexFunc(hosts, func(h *identity.Host) bool { return h.Node == nodeName })
	if i < 0 {
		i = slices.IndexFunc(hosts, func(h *identity.Host) bool { return h.Object.Namespace == s.namespace && h.IsNamed(nodeName) })
	}
	if i < 0 {
		return hosts
	}
	namespace := hosts[i].Object.Namespace
	return slices.DeleteFunc(hosts, func(h *identity.Host) bool {
		return h.Node != nodeName && h.Object.Namespace != namespace && h.Object.Namespace != s.namespace
	})
}

// dropNamesOfOthers takes those names from a host that are names of other Nodes. A host
// calls itself as it likes, and must not get a certificate to serve as another Node.
func (s hosts) dropNamesOfOthers(ctx context.Context, h *identity.Host, nodeName string) error {
	for _, name := range slices.Clone(h.Names) {
		if name == nodeName {
			continue
		}
		node, err := object.Get(ctx, s.client, client.ObjectKey{Name: name}, &corev1.Node{})
		if err != nil {
			return err
		}
		if node != nil {
			h.Drop(name)
		}
	}
	return nil
}
