// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gatherTime is for how long the changes of the hosts of a pool are gathered at least before its status tells of them. A pass goes over all of its hosts, and each
// change of a host asks for one. What the next hosts are is decided without it, see [Scheduler]. It is longer if the last pass took long, as
// that of the scheduler rests ([restAfter]): thousands of hosts, of which some always change, must not take a processor for the status of their pool.
const gatherTime = 500 * time.Millisecond

// gathered has what is asked for done in a while, by how long the last pass over the pool took: what is asked for again until then is done once.
func gathered(requests handler.MapFunc, took func(pool types.NamespacedName) time.Duration) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, object := range objects {
			for _, request := range requests(ctx, object) {
				q.AddAfter(request, max(gatherTime, restAfter(took(request.NamespacedName))))
			}
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, q, e.Object) },
	}
}
