// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// DeleteAnnotation of a Machine has it go first when there are to be fewer of its MachineSet. The cluster autoscaler sets it.
const DeleteAnnotation = "machine.openshift.io/delete-machine"

// machineSetController stands in for that of the Machine API: a MachineSet has as many Machines as it asks for, and another one for
// each that is deleted. Those go first that are annotated so; which others do is not decided as there.
type machineSetController struct {
	client client.Client
	// live is asked how many Machines there are: of those that it has just made the cache does not know.
	live client.Reader
}

func (m machineSetController) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("machinesets").For(&machinev1beta1.MachineSet{}).Owns(&machinev1beta1.Machine{}).
		Complete(reconcile.Func(m.reconcile))
}

func (m machineSetController) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &machinev1beta1.MachineSet{}
	if err := m.client.Get(ctx, request.NamespacedName, set); err != nil || !set.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var list machinev1beta1.MachineList
	if err := m.live.List(ctx, &list, client.InNamespace(set.Namespace)); err != nil {
		return reconcile.Result{}, err
	}
	var machines []*machinev1beta1.Machine
	running := int32(0)
	for i := range list.Items {
		machine := &list.Items[i]
		if !metav1.IsControlledBy(machine, set) || !machine.DeletionTimestamp.IsZero() {
			continue
		}
		machines = append(machines, machine)
		if machine.Status.NodeRef != nil {
			running++
		}
	}
	slices.SortStableFunc(machines, func(a, b *machinev1beta1.Machine) int { return cmp.Compare(mayGo(a), mayGo(b)) })
	wanted := int(ptr.Deref(set.Spec.Replicas, 1))
	for n := len(machines); n < wanted; n++ {
		if err := m.client.Create(ctx, machineOf(set)); err != nil {
			return reconcile.Result{}, err
		}
	}
	for n := len(machines); n > wanted; n-- {
		if err := client.IgnoreNotFound(m.client.Delete(ctx, machines[n-1])); err != nil {
			return reconcile.Result{}, err
		}
	}
	before := client.MergeFrom(set.DeepCopy())
	set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas, set.Status.ObservedGeneration = int32(wanted), running, running, set.Generation
	return reconcile.Result{}, client.IgnoreNotFound(m.client.Status().Patch(ctx, set, before))
}

// mayGo is 1 for a Machine that is to go before others.
func mayGo(machine *machinev1beta1.Machine) int {
	if _, asked := machine.Annotations[DeleteAnnotation]; asked {
		return 1
	}
	return 0
}

// machineOf is the next Machine of a MachineSet, under a name as the real one gives them.
func machineOf(set *machinev1beta1.MachineSet) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: fmt.Sprintf("%s-%s", set.Name, rand.String(5)),
			Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, machinev1beta1.SchemeGroupVersion.WithKind("MachineSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	return machine
}
