// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

const (
	// controllerName names the controller in logs and metrics.
	controllerName = "windows-node"
	// workers is how many instances are worked on at the same time. A lookup in DNS for
	// one of them must not hold up all others.
	workers = 4
)

// SetupWithManager adds the controller to mgr. It is for a controller that configures
// hosts; one that only watches them must not add it.
//
// The cache of mgr must keep of Nodes what [Annotations] and [TrimManagedFields] say, and
// its scheme must know machine.openshift.io/v1beta1.
//
// RBAC it needs, in all namespaces:
//
//	""                    events                               create patch
//	""                    nodes                                get list watch patch
//	apps                  controllerrevisions                  list watch
//	machine.openshift.io  machines                             get list watch
//	windows.openshift.io  windowsinstances windowsnodepools    get list watch
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.WindowsInstance{}, nodeIndex, indexNode); err != nil {
		return fmt.Errorf("adding index %s: %w", nodeIndex, err)
	}
	r := newReconciler(mgr.GetClient(), o)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(instanceChanged)).
		Watches(&v1alpha1.WindowsNodePool{}, handler.EnqueueRequestsFromMapFunc(watch.MembersOf(r.client)), builder.WithPredicates(watch.PoolChanged)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.hostsOf), builder.WithPredicates(nodeChanged)).
		WithOptions(watch.Options(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the Node controller: %w", err)
	}
	return nil
}

// hostsOf maps a Node to the instances that have it.
func (r *Reconciler) hostsOf(ctx context.Context, node client.Object) []reconcile.Request {
	return watch.Requests(ctx, r.client, client.MatchingFields{nodeIndex: node.GetName()})
}

// nodeIndex is the index of the cache that holds the names of the Nodes of instances.
const nodeIndex = "node-controller/node"

// indexNode is what [nodeIndex] holds of an instance.
func indexNode(o client.Object) []string {
	if node := o.(*v1alpha1.WindowsInstance).Status.Node; node != nil { //nolint:forcetypeassert // the indexer gives what is registered
		return []string{node.Name}
	}
	return nil
}

// instanceChanged lets pass what Nodes are written by, and not all that hosts tell.
var instanceChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (before.Generation != after.Generation || identity.Changed(before, after) ||
			!slices.Equal(before.Finalizers, after.Finalizers) ||
			!equality.Semantic.DeepEqual(before.Status.Node, after.Status.Node) ||
			givenUp(before) != givenUp(after) || confirmationChanged(&before.Status, &after.Status) || upToDate(before) != upToDate(after) || configured(before) != configured(after) || before.Status.Operation.Active() != after.Status.Operation.Active())
	},
}

func configured(instance *v1alpha1.WindowsInstance) bool {
	return meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionConfigured)
}

// nodeChanged lets pass what this controller writes, and not heartbeats.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.Node)
		after, okAfter := e.ObjectNew.(*corev1.Node)
		return okBefore && okAfter && (before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}
