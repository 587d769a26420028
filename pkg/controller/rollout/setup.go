// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

const (
	// controllerName and schedulerName name the controllers in logs and metrics.
	controllerName, schedulerName = "windows-pool", "windows-rollout"
	// workers is how many pools are worked on at the same time.
	workers = 2
)

// everything is the one request of the scheduler, which looks at all hosts together.
var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// CacheByObject restricts what the cache of a manager keeps: ControllerRevisions of pools, and not those of DaemonSets and
// StatefulSets, and of each what the controllers read: whoever may create them must not fill the memory of the controller.
func CacheByObject() map[client.Object]cache.ByObject {
	ofPools, err := labels.NewRequirement(v1alpha1.PoolLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return map[client.Object]cache.ByObject{&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*ofPools), Transform: trim}}
}

// SetupWithManager adds the controllers to mgr. The cache of mgr must keep managed
// fields of WindowsNodePools, and should be restricted by [CacheByObject]. Somebody has to receive from [Scheduler.UpdateBlockedByChanged].
//
// RBAC they need, in all namespaces:
//
//	windows.openshift.io  windowsnodepools          get list watch
//	windows.openshift.io  windowsnodepools/status   patch
//	windows.openshift.io  windowsinstances          get list watch
//	windows.openshift.io  windowsinstances/status   update
//	apps                  controllerrevisions       list watch create update delete
//	(core)                nodes                     get list watch
//	(core)                events                    create patch
func (s *Scheduler) SetupWithManager(mgr ctrl.Manager) error {
	register(s.options.Registerer, s)
	if s.options.Registerer != nil {
		if err := s.options.Registerer.Register(poolConditions{mgr.GetClient()}); err != nil {
			return fmt.Errorf("registering the metric of pools: %w", err)
		}
	}
	if err := mgr.Add(s.asker); err != nil {
		return fmt.Errorf("adding what asks hosts: %w", err)
	}
	answered, changed := make(chan event.GenericEvent), make(chan event.GenericEvent)
	s.asker.notify = func(ctx context.Context) { watch.Send(ctx, answered, &v1alpha1.WindowsInstance{}) }
	s.notifyPool = func(ctx context.Context, pool types.NamespacedName) {
		of := &v1alpha1.WindowsNodePool{}
		of.Namespace, of.Name = pool.Namespace, pool.Name
		watch.Send(ctx, changed, of)
	}
	s.notifyInstance = func(ctx context.Context, instance types.NamespacedName) {
		watch.Wake(ctx, s.blockedByChanged, instance)
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{everything} })
	if err := ctrl.NewControllerManagedBy(mgr).
		Named(schedulerName).
		Watches(&v1alpha1.WindowsInstance{}, all, builder.WithPredicates(decisive)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(nodeChanges)).
		Watches(&v1alpha1.WindowsNodePool{}, all, builder.WithPredicates(predicate.Or(watch.PoolChanged, poolStatusChanges))).
		WatchesRawSource(source.Channel(answered, all)).
		WithOptions(watch.Options(1)). // one pass sees what the one before did
		Complete(s); err != nil {
		return fmt.Errorf("adding the scheduler of updates: %w", err)
	}
	r := &Reconciler{
		client: mgr.GetClient(), now: time.Now, blockedBy: s.blockedBy, seen: map[types.NamespacedName]revisionSeen{}, deleted: map[types.NamespacedName]map[string]*appsv1.ControllerRevision{},
		keys: s.options.Keys, payload: s.options.Payload, goesBack: s.options.GoesBack, recorder: s.options.Recorder, reporter: message.NewReporter(s.options.Recorder, mgr.GetScheme()),
		applier: &apply.Applier{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), FieldManager: fieldManager},
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsNodePool{}).
		// An instance that goes over to another pool concerns both: the handler maps
		// the instance as it was and as it is.
		Watches(&v1alpha1.WindowsInstance{}, gathered(watch.PoolOf, r.passTook)).
		Watches(&appsv1.ControllerRevision{}, remembersDeleted{handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.WindowsNodePool{}, handler.OnlyControllerOwner()), r}).
		WatchesRawSource(source.Channel(changed, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(s.options.KeysChanged, handler.EnqueueRequestsFromMapFunc(r.everyPool))).
		WithOptions(watch.Options(workers))
	if s.options.Changed != nil {
		b = b.WatchesRawSource(source.Channel(s.options.Changed, handler.EnqueueRequestsFromMapFunc(r.everyPool)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding the rollout controller: %w", err)
	}
	return nil
}

// everyPool is every pool.
func (r *Reconciler) everyPool(ctx context.Context, _ client.Object) []reconcile.Request {
	var pools v1alpha1.WindowsNodePoolList
	if err := r.client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Pools cannot be listed")
	}
	requests := make([]reconcile.Request, len(pools.Items))
	for i := range pools.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&pools.Items[i])
	}
	return requests
}

// decisive passes every change but those known not to matter. A field that is forgotten here costs a pass, and leaves no host waiting.
var decisive = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsInstance)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsInstance)
		return okBefore && okAfter && (before.Generation != after.Generation ||
			before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!equality.Semantic.DeepEqual(decidedBy(before), decidedBy(after)) || !reflect.DeepEqual(newHost(before), newHost(after)))
	},
}

// decidedBy is the status of an instance without what is for people, and without what changes all the time and is not decided by.
func decidedBy(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstanceStatus {
	status := i.Status.DeepCopy()
	status.Phase = "" // says what the rest does
	for n := range status.Conditions {
		status.Conditions[n].Message = ""
	}
	if op := status.Operation; op != nil {
		op.Message, op.Progress, op.BlockedBy = "", nil, nil
		if op.Active() { // of its steps the host says which ones matter
			op.Steps = nil
		}
	}
	if u := status.WindowsUpdates; u != nil {
		u.Message = ""
		if u.SearchedAt != nil { // when the last search was matters after a failure only, and has time until the next pass
			u.SearchedAt = &metav1.Time{}
		}
		for n := range u.Failed {
			u.Failed[n].Message = ""
		}
	}
	return status
}

// nodeChanges lets pass that a Node is ready or not, is cordoned or not, asks for something, or is another one.
var nodeChanges = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.Node)
		after, okAfter := e.ObjectNew.(*corev1.Node)
		return okBefore && okAfter && (before.UID != after.UID || before.Spec.Unschedulable != after.Spec.Unschedulable || nodeReady(before) != nodeReady(after) ||
			before.Annotations[v1alpha1.CordonedByAnnotation] != after.Annotations[v1alpha1.CordonedByAnnotation] ||
			object.AsksForConfiguration(before) != object.AsksForConfiguration(after) || object.AsksForRestart(before) != object.AsksForRestart(after))
	},
}

// poolStatusChanges lets pass what its status says that bounds and hosts go by: its size, which revision is the newest, and removals, some of
// which may wait for no other host.
var poolStatusChanges = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }, GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.WindowsNodePool)
		after, okAfter := e.ObjectNew.(*v1alpha1.WindowsNodePool)
		return okBefore && okAfter && (before.Status.DesiredReplicas != after.Status.DesiredReplicas || before.Status.UpdateRevision != after.Status.UpdateRevision ||
			!equality.Semantic.DeepEqual(before.Status.RecentRemovals, after.Status.RecentRemovals))
	},
}
