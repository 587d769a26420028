// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// MachineAnnotation of a Node names its Machine.
	MachineAnnotation = "machine.openshift.io/machine"
	// excludeDrainAnnotation of a Machine has its Node not be drained.
	excludeDrainAnnotation = "machine.openshift.io/exclude-node-draining"
	// drainTimeout is how long one try to drain may take.
	drainTimeout = 20 * time.Second
)

// machineController stands in for the controllers of the Machine API: the one that links a Machine and its Node, the one
// that drains, and the one that has the phases. There is no cloud behind it: a virtual machine is the host that a test has
// started, whose addresses the test writes, and which is still there when its Machine is gone.
type machineController struct {
	client client.Client
	kube   kubernetes.Interface
}

// setup has it called for each Machine that changes, and for all of them when a Node does.
func (m machineController) setup(mgr ctrl.Manager) error {
	all := func(ctx context.Context, _ client.Object) []reconcile.Request {
		var machines machinev1beta1.MachineList
		if err := m.client.List(ctx, &machines); err != nil {
			return nil // the cache of a manager that stops
		}
		var requests []reconcile.Request
		for i := range machines.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
		return requests
	}
	return ctrl.NewControllerManagedBy(mgr).Named("machines").For(&machinev1beta1.Machine{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(all)).
		Complete(reconcile.Func(m.reconcile))
}

func (m machineController) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := &machinev1beta1.Machine{}
	if err := m.client.Get(ctx, request.NamespacedName, machine); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !machine.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, m.delete(ctx, machine)
	}
	if controllerutil.AddFinalizer(machine, machinev1beta1.MachineFinalizer) {
		return reconcile.Result{}, m.client.Update(ctx, machine)
	}
	if len(machine.Status.Addresses) == 0 {
		return reconcile.Result{}, nil // the cloud has not made it yet
	}
	if err := m.link(ctx, machine); err != nil {
		return reconcile.Result{}, err
	}
	phase := machinev1beta1.PhaseProvisioned
	if machine.Status.NodeRef != nil {
		phase = machinev1beta1.PhaseRunning
	}
	return reconcile.Result{}, m.setPhase(ctx, machine, phase)
}

// link writes into a Machine which Node is that of its host, found by provider ID, else by its first internal address,
// and into the Node which Machine that is.
func (m machineController) link(ctx context.Context, machine *machinev1beta1.Machine) error {
	var nodes corev1.NodeList
	if err := m.client.List(ctx, &nodes); err != nil {
		return err
	}
	node := nodeOf(machine, nodes.Items)
	if node == nil || !node.DeletionTimestamp.IsZero() {
		return nil // the reference to a Node that is gone stays
	}
	if ref := machine.Status.NodeRef; ref == nil || ref.UID != node.UID {
		before := client.MergeFrom(machine.DeepCopy())
		machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
		machine.Status.LastUpdated = ptr.To(metav1.Now())
		if err := m.client.Status().Patch(ctx, machine, before); err != nil {
			return err
		}
	}
	before := client.MergeFrom(node.DeepCopy())
	if name := client.ObjectKeyFromObject(machine).String(); node.Annotations[MachineAnnotation] != name {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, MachineAnnotation, name)
		return m.client.Patch(ctx, node, before)
	}
	return nil
}

// nodeOf returns the Node of a Machine, nil if there is none or more than one.
func nodeOf(machine *machinev1beta1.Machine, nodes []corev1.Node) *corev1.Node {
	only := func(is func(corev1.Node) bool) *corev1.Node {
		i := slices.IndexFunc(nodes, is)
		if i < 0 || slices.ContainsFunc(nodes[i+1:], is) {
			return nil
		}
		return &nodes[i]
	}
	if id := ptr.Deref(machine.Spec.ProviderID, ""); id != "" {
		if node := only(func(n corev1.Node) bool { return n.Spec.ProviderID == id }); node != nil {
			return node
		}
	}
	isInternal := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }
	i := slices.IndexFunc(machine.Status.Addresses, isInternal)
	if i < 0 {
		return nil
	}
	return only(func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
			return isInternal(a) && a.Address == machine.Status.Addresses[i].Address
		})
	})
}

func (m machineController) setPhase(ctx context.Context, machine *machinev1beta1.Machine, phase string) error {
	if ptr.Deref(machine.Status.Phase, "") == phase {
		return nil
	}
	before := client.MergeFrom(machine.DeepCopy())
	machine.Status.Phase = &phase
	return m.client.Status().Patch(ctx, machine, before)
}

// delete goes one step on with a Machine that is being deleted. The owner of a hook brings the next step by taking that off.
func (m machineController) delete(ctx context.Context, machine *machinev1beta1.Machine) error {
	if err := m.setPhase(ctx, machine, machinev1beta1.PhaseDeleting); err != nil {
		return err
	}
	if !controllerutil.ContainsFinalizer(machine, machinev1beta1.MachineFinalizer) {
		return nil
	}
	if !isDrained(machine) {
		return m.drain(ctx, machine)
	}
	if len(machine.Spec.LifecycleHooks.PreTerminate) > 0 {
		return nil
	}
	if ref := machine.Status.NodeRef; ref != nil {
		if err := m.kube.CoreV1().Nodes().Delete(ctx, ref.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	controllerutil.RemoveFinalizer(machine, machinev1beta1.MachineFinalizer)
	return m.client.Update(ctx, machine)
}

// drain drains the Node of a Machine, and notes in a condition that this is over.
func (m machineController) drain(ctx context.Context, machine *machinev1beta1.Machine) error {
	if _, excluded := machine.Annotations[excludeDrainAnnotation]; !excluded && machine.Status.NodeRef != nil {
		if len(machine.Spec.LifecycleHooks.PreDrain) > 0 {
			return nil
		}
		if err := m.drainNode(ctx, machine.Status.NodeRef.Name); err != nil {
			return err
		}
	}
	before := client.MergeFrom(machine.DeepCopy())
	machine.Status.Conditions = append(
		slices.DeleteFunc(machine.Status.Conditions, func(c machinev1beta1.Condition) bool { return c.Type == machinev1beta1.MachineDrained }),
		machinev1beta1.Condition{Type: machinev1beta1.MachineDrained, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	return m.client.Status().Patch(ctx, machine, before)
}

func isDrained(machine *machinev1beta1.Machine) bool {
	return slices.ContainsFunc(machine.Status.Conditions, func(c machinev1beta1.Condition) bool {
		return c.Type == machinev1beta1.MachineDrained && c.Status == corev1.ConditionTrue
	})
}

func (m machineController) drainNode(ctx context.Context, name string) error {
	node, err := m.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	helper := &drain.Helper{
		Ctx: ctx, Client: m.kube, Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		GracePeriodSeconds: -1, Timeout: drainTimeout, Out: io.Discard, ErrOut: io.Discard,
	}
	if err := errors.Join(drain.RunCordonOrUncordon(helper, node, true), drain.RunNodeDrain(helper, name)); err != nil {
		return fmt.Errorf("draining Node %s: %w", name, err)
	}
	return nil
}
