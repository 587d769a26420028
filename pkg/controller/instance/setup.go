// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

const (
	// controllerName names the controller in logs, metrics and events.
	controllerName = "windows-instance"
	// workers is how many instances are reconciled at the same time. Workers never wait for a
	// host, so a few are enough.
	workers = 4
)

// SetupWithManager adds the controller to a manager: its indexes, its watches and
// the runnable that does the I/O with hosts.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, o)
	for _, index := range indexes() {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), index.object, index.field, index.extract); err != nil {
			return fmt.Errorf("adding index %s: %w", index.field, err)
		}
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(collector{mgr.GetClient(), fleetMetrics}); err != nil {
			return fmt.Errorf("registering the metrics of instances: %w", err)
		}
	}
	if err := mgr.Add(r.prober); err != nil {
		return fmt.Errorf("adding the prober: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(watch.MoreThanProgress)).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(r.sharingHost), builder.WithPredicates(endpointsChanged)).
		Watches(&v1alpha1.WindowsNodePool{}, handler.EnqueueRequestsFromMapFunc(watch.MembersOf(r.client)), builder.WithPredicates(watch.PoolChanged)).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfRevision), builder.WithPredicates(revisionKept)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.hostsOf), builder.WithPredicates(nodeChanged)).
		WatchesRawSource(crsource.Channel(r.wake, &handler.EnqueueRequestForObject{})).
		WithOptions(watch.Options(workers))
	if r.Changed != nil {
		b = b.WatchesRawSource(crsource.Channel(r.Changed, handler.EnqueueRequestsFromMapFunc(r.everyone)))
	}
	if r.UpdateBlockedByChanged != nil {
		b = b.WatchesRawSource(crsource.Channel(r.UpdateBlockedByChanged, &handler.EnqueueRequestForObject{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding the instance controller: %w", err)
	}
	return nil
}

// sharingHost maps an instance to the others that are contacted at the same endpoint, or may
// have the same Node, or the same computer name: which of them stands for the host, or may have the name, may have changed.
func (r *Reconciler) sharingHost(ctx context.Context, object client.Object) []reconcile.Request {
	instance, ok := object.(*v1alpha1.WindowsInstance)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, at := range identity.Endpoints(instance) {
		out = append(out, r.instancesWith(ctx, client.MatchingFields{indexEndpoint: at})...)
	}
	for _, id := range identity.OfMachine(instance) {
		out = append(out, r.instancesWith(ctx, client.MatchingFields{identity.MachineIndex: id})...)
	}
	for _, id := range identity.OfInstance(instance) {
		out = append(out, r.instancesWith(ctx, client.MatchingFields{identity.InstanceIndex: id})...)
	}
	for _, name := range hostnamesOf(instance) {
		out = append(out, r.instancesWith(ctx, client.MatchingFields{indexHostname: name})...)
	}
	seen := map[types.NamespacedName]bool{client.ObjectKeyFromObject(instance): true}
	return slices.DeleteFunc(out, func(req reconcile.Request) bool {
		known := seen[req.NamespacedName]
		seen[req.NamespacedName] = true
		return known
	})
}

// hostsOfRevision maps what is kept of a pool to the instances of the pool: what they work with is recorded once it is kept.
func (r *Reconciler) hostsOfRevision(ctx context.Context, kept client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(kept)
	if owner == nil || owner.APIVersion != v1alpha1.SchemeGroupVersion.String() { // it is of a workload
		return nil
	}
	return r.instancesWith(ctx, client.InNamespace(kept.GetNamespace()), object.InPool(owner.Name))
}

// revisionKept lets pass that a revision is kept now. What is in it never changes.
var revisionKept = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// everyone is every instance.
func (r *Reconciler) everyone(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.instancesWith(ctx)
}

// hostsOf maps a Node to the instances whose Node it may be.
func (r *Reconciler) hostsOf(ctx context.Context, object client.Object) []reconcile.Request {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, id := range identity.OfNode(node) {
		out = append(out, r.instancesWith(ctx, client.MatchingFields{identity.InstanceIndex: id})...)
	}
	return out
}

func (r *Reconciler) instancesWith(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	return watch.Requests(ctx, r.client, opts...)
}

// endpointsChanged lets pass what may change which of several instances stands for a host.
var endpointsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (!slices.Equal(identity.Endpoints(before), identity.Endpoints(after)) ||
			!slices.Equal(hostnamesOf(before), hostnamesOf(after)) ||
			before.Status.MachineID != after.Status.MachineID || before.Status.HostIP != after.Status.HostIP || before.Status.Bastion != after.Status.Bastion ||
			!slices.Equal(before.Status.HostKeys, after.Status.HostKeys) ||
			before.Status.OfAnotherNamespace() != after.Status.OfAnotherNamespace() ||
			before.Status.Identified() != after.Status.Identified() ||
			before.Status.ChangedHost() != after.Status.ChangedHost() ||
			before.Status.MayHaveChangedHost() != after.Status.MayHaveChangedHost() ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!equality.Semantic.DeepEqual(before.Status.Node, after.Status.Node))
	},
}

// nodeChanged lets pass what the status of an instance tells of a Node and what the
// configuration of its host depends on, and not its heartbeats.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.Node)
		after, okAfter := e.ObjectNew.(*corev1.Node)
		if !okBefore || !okAfter {
			return false
		}
		was, is := object.NodeReady(before), object.NodeReady(after)
		if (was == nil) != (is == nil) || was != nil && (was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message) {
			return true
		}
		return before.UID != after.UID || uninitialized(before) != uninitialized(after) || !maps.Equal(before.Annotations, after.Annotations) || before.Labels[v1alpha1.NamespaceLabel] != after.Labels[v1alpha1.NamespaceLabel] || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) || before.Spec.ProviderID != after.Spec.ProviderID ||
			before.Status.NodeInfo.KubeletVersion != after.Status.NodeInfo.KubeletVersion || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
	},
}
