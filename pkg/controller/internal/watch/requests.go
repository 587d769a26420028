// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// Requests are those for the instances that the options of a list select. It is for the watches of other objects:
// reader is a cache, and an error of it is logged. Options that select by an index keep what a change costs
// the same in a cluster of any size.
func Requests(ctx context.Context, reader client.Reader, o ...client.ListOption) []reconcile.Request {
	var instances v1alpha1.WindowsInstanceList
	if err := reader.List(ctx, &instances, append(o, client.UnsafeDisableDeepCopy)...); err != nil {
		// The cache answers, so that this does not happen while it runs.
		log.FromContext(ctx).Error(err, "Looking up the instances that a change concerns")
		return nil
	}
	out := make([]reconcile.Request, len(instances.Items))
	for i := range instances.Items {
		out[i].NamespacedName = client.ObjectKeyFromObject(&instances.Items[i])
	}
	return out
}

// Wake sends an event about an instance to a channel that a controller watches, unless ctx
// ends before it is received.
func Wake(ctx context.Context, to chan<- event.GenericEvent, key types.NamespacedName) {
	Send(ctx, to, &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
}

// Send sends an event about any object, as [Wake] does about instances.
func Send(ctx context.Context, to chan<- event.GenericEvent, object client.Object) {
	select {
	case to <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// PoolOf is the request for the pool of an instance. It is a [handler.MapFunc].
func PoolOf(_ context.Context, instance client.Object) []reconcile.Request {
	i, ok := instance.(*v1alpha1.WindowsInstance)
	if !ok || object.PoolName(i) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: i.Namespace, Name: object.PoolName(i)}}}
}

// MembersOf are the requests for the instances of a pool; see [Requests].
func MembersOf(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, pool client.Object) []reconcile.Request {
		return Requests(ctx, reader, client.InNamespace(pool.GetNamespace()), object.InPool(pool.GetName()))
	}
}
