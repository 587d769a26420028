// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Action is what a Machine asks for.
type Action string

const (
	// Leave means that nothing is done: an instance stays as it is, and none is made.
	Leave Action = "Leave"
	// Apply means that the instance is made, or made what the Machine says.
	Apply Action = "Apply"
	// Pause means that an instance is paused, and none is made.
	Pause Action = "Pause"
	// Keep means that an instance stays as it is, although the Machine no longer asks for it, and
	// none is made.
	Keep Action = "Keep"
	// Remove means that an instance is deleted.
	Remove Action = "Remove"
)

// Decide says what a Machine asks for.
func Decide(machine *machinev1beta1.Machine) Action {
	switch {
	case !machine.DeletionTimestamp.IsZero() && awaitsDrain(machine):
		return Leave
	case !machine.DeletionTimestamp.IsZero():
		return Remove
	case !isWindows(machine.Labels):
		return Keep
	case machine.Labels[wmco.IgnoreLabel] == wmco.IgnoreValue:
		return Pause
	}
	switch ptr.Deref(machine.Status.Phase, "") {
	case machinev1beta1.PhaseProvisioned, machinev1beta1.PhaseRunning:
		if Address(machine.Status.Addresses, "") != "" {
			return Apply
		}
	}
	return Leave
}

// excludeDrain is the annotation of a Machine whose Node the Machine API does not drain. Its value does not matter.
const excludeDrain = "machine.openshift.io/exclude-node-draining"

// awaitsDrain says whether somebody has a hook on a Machine that keeps the Machine API from draining its Node, which then must not
// be drained by the removal of the host either. The rules are those of the Machine API: it asks nobody about a Machine
// without a Node, nor if its Node is not to be drained, and a hook that comes after the drain changes nothing.
func awaitsDrain(machine *machinev1beta1.Machine) bool {
	if len(machine.Spec.LifecycleHooks.PreDrain) == 0 || machine.Status.NodeRef == nil {
		return false
	}
	if _, excluded := machine.Annotations[excludeDrain]; excluded {
		return false
	}
	return !slices.ContainsFunc(machine.Status.Conditions, func(c machinev1beta1.Condition) bool {
		return c.Type == machinev1beta1.MachineDrained && c.Status == corev1.ConditionTrue
	})
}

func isWindows(labels map[string]string) bool {
	return labels[wmco.MachineOSLabel] == wmco.MachineOSWindows
}

// setOf returns the name of the MachineSet that controls a Machine. Empty: none.
func setOf(machine *machinev1beta1.Machine) string {
	owner := metav1.GetControllerOf(machine)
	if owner == nil || owner.Kind != kindMachineSet || !inMachineAPI(owner.APIVersion) {
		return ""
	}
	return owner.Name
}

// poolOf returns the name of the pool of the Machines of set, nil when there is no
// such MachineSet. It is the one that is or will be made for the set. Empty: none,
// because the set is none of Windows, or because another pool has its name.
func poolOf(set *machinev1beta1.MachineSet, pool *v1alpha1.WindowsNodePool) string {
	if set == nil || !isWindows(set.Spec.Template.Labels) || (pool != nil && !asksFor(pool, set.Name)) {
		return ""
	}
	return set.Name
}

// asksFor says whether a pool has the MachineSet of its own name as its source.
func asksFor(pool *v1alpha1.WindowsNodePool, set string) bool {
	ref := pool.Spec.Source.MachineSet
	return pool.Name == set && ref != nil && ref.Name == set
}

// belongs says whether an instance was made from the Machine of its name, be it
// this one or one of the same name before it. An instance whose owner somebody took
// away is known by its annotation.
func belongs(instance *v1alpha1.WindowsInstance) bool {
	owner := metav1.GetControllerOf(instance)
	if owner == nil {
		return instance.Annotations[v1alpha1.SourceAnnotation] == sourceOf(kindMachine, instance)
	}
	return owner.Kind == kindMachine && owner.Name == instance.Name && inMachineAPI(owner.APIVersion)
}

// ofAnother says whether an instance was made from an earlier Machine of the same name.
func ofAnother(instance *v1alpha1.WindowsInstance, machine *machinev1beta1.Machine) bool {
	owner := metav1.GetControllerOf(instance)
	return owner != nil && owner.UID != machine.UID && belongs(instance)
}
