// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// hasFailed says whether the Machine API has given a Machine up.
func hasFailed(machine *machinev1beta1.Machine) bool {
	return machine.DeletionTimestamp.IsZero() && ptr.Deref(machine.Status.Phase, "") == machinev1beta1.PhaseFailed
}

// maxCause bounds what the Machine API says of a failure, in bytes.
const maxCause = 300

// failure says that a Machine has failed, why, and what to do. Nothing is done here: its virtual machine may be there, with
// what somebody needs of it.
func failure(machine *machinev1beta1.Machine) string {
	why := ptr.Deref(machine.Status.ErrorMessage, "")
	if why == "" {
		why = string(ptr.Deref(machine.Status.ErrorReason, ""))
	}
	cause := message.Cause(message.Shorten(strings.Join(strings.Fields(why), " "), maxCause))
	return fmt.Sprintf("Machine %s has failed: %s To have it replaced: kubectl delete machines.machine.openshift.io %s -n %s", machine.Name, cause, machine.Name, machine.Namespace)
}

// failureChanged lets pass what changes which Machines have failed, and why.
var failureChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return failureOf(e.Object) != "" },
	UpdateFunc: func(e event.UpdateEvent) bool { return failureOf(e.ObjectOld) != failureOf(e.ObjectNew) },
	DeleteFunc: func(e event.DeleteEvent) bool { return failureOf(e.Object) != "" },
}

func failureOf(object client.Object) string {
	machine, ok := object.(*machinev1beta1.Machine)
	if !ok || !hasFailed(machine) {
		return ""
	}
	return failure(machine)
}

// toSet asks for the pool of the MachineSet of a Machine.
func toSet(_ context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*machinev1beta1.Machine)
	if !ok || setOf(machine) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: machine.Namespace, Name: setOf(machine)}}}
}
