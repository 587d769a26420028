// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	accorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

const (
	// fieldManager owns what this controller applies. It must never change.
	fieldManager = "windows-controller-node"

	// reconsiderInterval is how often a Node that is not confirmed, or that WMCO upgrades, is checked again
	// without anything having changed that is watched: Machines and DNS change, too.
	reconsiderInterval = time.Minute
	// conflictInterval is when a write is tried again that came too late.
	conflictInterval = time.Second
)

// reasonNodeNameUnknown is the reason of the event about a Node that is not confirmed; it
// is also that of certificates that are refused for the same.
const reasonNodeNameUnknown = "NodeNameUnknown"

// Reconciler keeps Nodes. See the comment of the package. Its requests are instances.
type Reconciler struct {
	Options

	client   client.Client
	reporter *message.Reporter
	// resolver confirms names of Nodes.
	resolver identity.Resolver
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

func newReconciler(c client.Client, o Options) *Reconciler {
	return &Reconciler{Options: o, client: c, reporter: message.NewReporter(o.Recorder, c.Scheme()), resolver: &identity.Background{Resolver: net.DefaultResolver}}
}

// Reconcile makes the Node of an instance as it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	instance, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if instance == nil {
		r.reporter.Forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if !identity.MayOwn(instance) {
		return reconcile.Result{}, nil
	}
	node, err := object.Get(ctx, r.client, client.ObjectKey{Name: instance.Status.Node.Name}, &corev1.Node{})
	if err != nil {
		return reconcile.Result{}, err
	}
	// Another Node of that name is not known to be that of the host yet.
	if node == nil || node.UID != instance.Status.Node.UID || !node.DeletionTimestamp.IsZero() || !owned(instance, node) {
		return reconcile.Result{}, nil
	}
	pool, err := object.PoolOf(ctx, r.client, instance)
	if err != nil {
		return reconcile.Result{}, err
	}
	if leaves(instance, pool, node) {
		return reconcile.Result{}, nil
	}
	problem, err := r.refusal(ctx, instance, node.Name)
	if errors.Is(err, identity.ErrLookingUp) {
		return reconcile.Result{RequeueAfter: identity.RetryLookup}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if problem != nil {
		r.reporter.Report(instance, problem.reason, map[string]string{"": problem.message})
		return reconcile.Result{RequeueAfter: reconsiderInterval}, nil
	}
	r.reporter.Report(instance, reasonNodeNameUnknown, nil)
	template, err := templateOf(ctx, r.client, instance, pool)
	if err != nil || template == nil && pool != nil {
		return reconcile.Result{}, err
	}
	over, again := false, time.Duration(0)
	if mayBeOver(instance, node) {
		if over, err = r.WMCOEnded(ctx); err != nil {
			return reconcile.Result{}, fmt.Errorf("finding out whether the Windows Machine Config Operator runs: %w", err)
		}
		if !over {
			again = reconsiderInterval
		}
	}
	if err := r.write(ctx, instance, template, node, over); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			// The Node changed, or is another one by now; the cache will know in a moment.
			log.FromContext(ctx).V(2).Info("The Node changed meanwhile", "node", node.Name, "cause", err.Error())
			return reconcile.Result{RequeueAfter: conflictInterval}, nil
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// problem is why a Node is left alone.
type problem struct{ reason, message string }

// refusal says why it is not certain that the Node is that of the host. Nil: it is.
func (r *Reconciler) refusal(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (*problem, error) {
	nodes := identity.Nodes{Reader: r.client, Resolver: r.resolver, Namespace: r.Namespace}
	verdict, err := nodes.Verify(ctx, instance, nodeName)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case identity.Unconfirmed:
		return &problem{reasonNodeNameUnknown, fmt.Sprintf("Labels and taints of node %s are left alone: only the addresses that the Node itself reports connect it to this host. "+
			"The host does not call itself so, and DNS has no such name with the address of the host.", nodeName)}, nil
	case identity.Shared:
		// Those who see the event may not see instances of other namespaces.
		return &problem{string(policy.ReasonAmbiguous), fmt.Sprintf("Labels and taints of node %s are left alone: another instance has it, too.", nodeName)}, nil
	}
	return nil, nil //nolint:nilnil // it is certain
}

// providerIDTaken says whether a Node that has no provider's ID must not get that of its instance, because another Node has it: nobody could
// take it away again.
func (r *Reconciler) providerIDTaken(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node) (bool, error) {
	id := instance.Spec.ProviderID
	if v1alpha1.CanonicalProviderID(id) == "" || node.Spec.ProviderID != "" {
		return false, nil
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy, client.MatchingFields{identity.NodeIndex: identity.OfProvider(id)}); err != nil {
		return false, fmt.Errorf("looking for the Node with provider ID %s: %w", id, err)
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.UID != node.UID }), nil
}

// write brings the Node to the desired state, with one request for its spec and one for its
// metadata, or none.
func (r *Reconciler) write(ctx context.Context, instance *v1alpha1.WindowsInstance, template *v1alpha1.PoolTemplate, node *corev1.Node, over bool) error {
	taken, err := r.providerIDTaken(ctx, instance, node)
	if err != nil {
		return err
	}
	if changed, differs := withSpec(instance, template, node, over, taken); differs {
		if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("patching taints of Node %s: %w", node.Name, err)
		}
		log.FromContext(ctx).Info("Taints of the Node written", "node", node.Name, "taints", changed.Annotations[v1alpha1.ManagedTaintsAnnotation])
	}
	want := desiredMetadata(instance, template, node, r.Version)
	have, err := accorev1.ExtractNode(node, fieldManager)
	if err != nil {
		return fmt.Errorf("reading the managed fields of Node %s: %w", node.Name, err)
	}
	// What somebody else changed is not in what is extracted as ours, or with their value.
	if have.ObjectMetaApplyConfiguration != nil && maps.Equal(have.Labels, want.labels) && maps.Equal(have.Annotations, want.annotations) {
		return nil
	}
	// With the UID, a Node that was deleted meanwhile is not made again.
	apply := accorev1.Node(node.Name).WithUID(node.UID).WithLabels(want.labels).WithAnnotations(want.annotations)
	if err := r.client.Apply(ctx, apply, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying labels of Node %s: %w", node.Name, err)
	}
	log.FromContext(ctx).Info("Labels and annotations of the Node written", "node", node.Name)
	return nil
}
