// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// Reconciler has operations run. See the comment of the package.
type Reconciler struct {
	Options

	client client.Client
	// live reads from the API server: a cache may still have what was changed long ago.
	live    client.Reader
	clock   clock.Clock
	drainer drainer
	runner  *runner
	metrics *metrics
	pace    pace
	// wake has the instances whose execution has ended.
	wake chan event.GenericEvent
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// newReconciler wires a reconciler. The caller runs its runner and reads wake.
func newReconciler(c client.Client, live client.Reader, o Options) *Reconciler {
	r := &Reconciler{
		Options: o, client: c, live: live, clock: clock.RealClock{}, drainer: drain.New(o.Kube),
		wake: make(chan event.GenericEvent),
	}
	r.runner = newRunner(o.Concurrent, r.clock)
	r.metrics = newMetrics(o.Registerer, r.runner)
	r.runner.execute, r.runner.ready = r.execute, o.Ready
	r.runner.notify = func(ctx context.Context, key types.NamespacedName) { watch.Wake(ctx, r.wake, key) }
	return r
}

// Reconcile has the operation of an instance run, if there is one to be. It
// reads the cache only and waits for nothing.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	instance, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if instance == nil {
		r.runner.drop(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if op := instance.Status.Operation; op.Active() {
		//nolint:contextcheck // an execution lives as long as the runner, not as long as this pass
		r.runner.submit(req.NamespacedName, op.ID, laneOf(op), op.CancelRequestedAt != nil || deleted(instance))
	}
	return reconcile.Result{}, nil
}

// execute runs an operation; see [runner.execute].
func (r *Reconciler) execute(ctx context.Context, key types.NamespacedName, id string, canceled <-chan struct{}, yield func()) (again time.Duration) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName(controllerName).WithValues("WindowsInstance", key, "operation", id))
	e := &execution{Reconciler: r, key: key, id: id, yield: yield, reported: sets.New[string]()}
	return e.run(ctx, canceled)
}
