// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Reconciler has operations carried out. See the comment of the package.
type Reconciler struct {
	Options

	client  client.Client
	live    client.Reader
	logger  logr.Logger
	runner  *runner
	metrics *metrics
	// wake has the instances whose execution has ended.
	wake chan event.GenericEvent
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// newReconciler wires a reconciler. The caller runs its runner and reads wake.
func newReconciler(c client.Client, live client.Reader, logger logr.Logger, o Options) (*Reconciler, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("options of the operation controller: %w", err)
	}
	r := &Reconciler{
		Options: o, client: c, live: live, logger: logger,
		runner: newRunner(o.Concurrent), metrics: newMetrics(), wake: make(chan event.GenericEvent),
	}
	r.runner.execute, r.runner.notify = r.execute, r.wakeUp
	return r, nil
}

// Reconcile has the operation of an instance carried out, if there is one to be. It
// reads the cache only and waits for nothing.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	instance := &v1alpha1.WindowsInstance{}
	if err := r.client.Get(ctx, req.NamespacedName, instance); err != nil {
		if apierrors.IsNotFound(err) {
			r.runner.drop(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the instance: %w", err)
	}
	if op := instance.Status.Operation; op.Active() {
		//nolint:contextcheck // an execution lives as long as the runner, not as long as this pass
		r.runner.submit(req.NamespacedName, op.ID, op.Type == v1alpha1.OperationUncordon, op.CancelRequestedAt != nil || deleted(instance))
	}
	return reconcile.Result{}, nil
}

// execute carries an operation out.
func (r *Reconciler) execute(ctx context.Context, key types.NamespacedName, id string, canceled <-chan struct{}, yield func()) {
	ctx = log.IntoContext(ctx, r.logger.WithValues("WindowsInstance", key, "operation", id))
	e := &execution{
		stored:        &stored{client: r.client, live: r.live, clock: r.clock, key: key, id: id},
		hosts:         r.Hosts,
		configuration: r.Configuration,
		kube:          r.Kube,
		cached:        r.client,
		drainer:       r.drainer,
		disruptions:   r.Disruptions,
		restarts:      r.Restarts,
		leads:         r.Leads,
		yield:         yield,
		recorder:      r.Recorder,
		metrics:       r.metrics,
		told:          map[string]bool{},
	}
	e.run(ctx, canceled)
}

// wakeUp has an instance reconciled.
func (r *Reconciler) wakeUp(ctx context.Context, key types.NamespacedName) {
	e := event.GenericEvent{Object: &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}
	select {
	case r.wake <- e:
	case <-ctx.Done():
	}
}
