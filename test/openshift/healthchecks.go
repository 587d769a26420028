// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pausedAnnotation of a MachineHealthCheck has it do nothing.
const pausedAnnotation = "cluster.x-k8s.io/paused"

// healthCheckController stands in for that of MachineHealthChecks: it deletes Machines of MachineSets whose Node is gone, or has had a
// condition for as long as it may, as long as no more of those that are selected are so than may be. Machines without a Node are left alone,
// and no template of a remediation is known.
type healthCheckController struct {
	client client.Client
}

// setup has it called for each MachineHealthCheck that changes, and for all of them when a Machine or a Node does.
func (h healthCheckController) setup(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var checks machinev1beta1.MachineHealthCheckList
		if err := h.client.List(ctx, &checks); err != nil {
			return nil // the cache of a manager that stops
		}
		var requests []reconcile.Request
		for i := range checks.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&checks.Items[i])})
		}
		return requests
	})
	return ctrl.NewControllerManagedBy(mgr).Named("health checks").For(&machinev1beta1.MachineHealthCheck{}).
		Watches(&machinev1beta1.Machine{}, all).Watches(&corev1.Node{}, all).
		Complete(reconcile.Func(h.reconcile))
}

func (h healthCheckController) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	check := &machinev1beta1.MachineHealthCheck{}
	if err := h.client.Get(ctx, request.NamespacedName, check); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, paused := check.Annotations[pausedAnnotation]; paused {
		return reconcile.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, err
	}
	var machines machinev1beta1.MachineList
	if err := h.client.List(ctx, &machines, client.InNamespace(check.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return reconcile.Result{}, err
	}
	var unhealthy []*machinev1beta1.Machine
	next := time.Duration(0)
	for i := range machines.Items {
		machine := &machines.Items[i]
		healthy, again, err := h.isHealthy(ctx, check, machine)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case !healthy:
			unhealthy = append(unhealthy, machine)
		case again > 0 && (next == 0 || again < next):
			next = again
		}
	}
	allowed, err := intstr.GetScaledValueFromIntOrPercent(check.Spec.MaxUnhealthy, len(machines.Items), false)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(unhealthy) > allowed {
		return reconcile.Result{RequeueAfter: next}, nil
	}
	for _, machine := range unhealthy {
		if metav1.GetControllerOf(machine) == nil || !machine.DeletionTimestamp.IsZero() {
			continue
		}
		if err := client.IgnoreNotFound(h.client.Delete(ctx, machine)); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// isHealthy says whether the Node of a Machine is as it should be, and after how long that may be otherwise. Zero: it depends on no time.
func (h healthCheckController) isHealthy(ctx context.Context, check *machinev1beta1.MachineHealthCheck, machine *machinev1beta1.Machine) (healthy bool, again time.Duration, err error) {
	if machine.Status.NodeRef == nil {
		return true, 0, nil
	}
	node := &corev1.Node{}
	if err := h.client.Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return false, 0, nil
		}
		return false, 0, err
	}
	for _, bad := range check.Spec.UnhealthyConditions {
		for _, c := range node.Status.Conditions {
			if c.Type != bad.Type || c.Status != bad.Status {
				continue
			}
			left := bad.Timeout.Duration - time.Since(c.LastTransitionTime.Time)
			if left <= 0 {
				return false, 0, nil
			}
			if again == 0 || left < again {
				again = left
			}
		}
	}
	return true, again, nil
}
