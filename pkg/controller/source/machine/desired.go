// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"fmt"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Kinds of the Machine API.
const (
	kindMachine    = "Machine"
	kindMachineSet = "MachineSet"
)

func inMachineAPI(apiVersion string) bool {
	return strings.HasPrefix(apiVersion, machinev1beta1.GroupName+"/")
}

// sourceOf is the value of the source annotation on what is made from the object of
// that kind with the namespace and name of obj.
func sourceOf(kind string, obj client.Object) string {
	return kind + " " + client.ObjectKeyFromObject(obj).String()
}

// ownedBy makes obj the controller of what refers to it so. It does not block the
// deletion of its owner: that would need the right to update finalizers of Machines.
func ownedBy(kind string, obj client.Object) *acmetav1.OwnerReferenceApplyConfiguration {
	return acmetav1.OwnerReference().
		WithAPIVersion(machinev1beta1.SchemeGroupVersion.String()).
		WithKind(kind).
		WithName(obj.GetName()).
		WithUID(obj.GetUID()).
		WithController(true)
}

// removeAfter is for how long the host of a Machine that goes is waited for while it
// cannot be reached. Usually the virtual machine goes with its Machine: there is nothing
// left to be cleaned, and nobody who would say so.
const removeAfter = 5 * time.Minute

// instanceFor is what the controller wants of the instance of a Machine. What it
// leaves out, such as credentials or host keys, belongs to people. current is the
// instance as it is, nil when there is none.
func instanceFor(machine *machinev1beta1.Machine, current *v1alpha1.WindowsInstance, pool, computerName string, platform configv1.PlatformType) *acwindowsv1alpha1.WindowsInstanceApplyConfiguration {
	address := ""
	if current != nil {
		address = current.Spec.Address
	}
	spec := acwindowsv1alpha1.WindowsInstanceSpec().
		WithAddress(Address(machine.Status.Addresses, address)).
		WithPort(v1alpha1.DefaultPort).
		WithUsername(wmco.MachineUsername(platform))
	if !removalChosen(current) {
		spec.WithRemoval(acwindowsv1alpha1.RemovalOptions().WithAfterSeconds(int64(removeAfter / time.Second)))
	}
	if computerName != "" {
		spec.WithNodeName(computerName)
	}
	if pool != "" {
		spec.WithPoolRef(acwindowsv1alpha1.PoolReference().WithName(pool))
	}
	if id := ptr.Deref(machine.Spec.ProviderID, ""); id != "" {
		spec.WithProviderID(id)
	}
	return acwindowsv1alpha1.WindowsInstance(machine.Name, machine.Namespace).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: sourceOf(kindMachine, machine)}).
		WithOwnerReferences(ownedBy(kindMachine, machine)).
		WithSpec(spec)
}

// appliedPool returns the name of the pool that an instance got from here. Empty: none. A Machine
// that lives on keeps it when its MachineSet loses its label, or is deleted without its Machines:
// otherwise all hosts of the set would lose the labels, taints and credentials of the pool at once.
func appliedPool(current *v1alpha1.WindowsInstance) (string, error) {
	applied, err := acwindowsv1alpha1.ExtractWindowsInstance(current, instanceManager)
	if err != nil {
		return "", fmt.Errorf("read managed fields of WindowsInstance %s: %w", client.ObjectKeyFromObject(current), err)
	}
	if applied.Spec == nil || applied.Spec.PoolRef == nil {
		return "", nil
	}
	return ptr.Deref(applied.Spec.PoolRef.Name, ""), nil
}

// removalChosen says whether somebody has set another time than [removeAfter], which
// then stays: it is a default.
func removalChosen(current *v1alpha1.WindowsInstance) bool {
	if current == nil || current.Spec.Removal == nil || current.Spec.Removal.AfterSeconds == nil {
		return false
	}
	return *current.Spec.Removal.AfterSeconds != int64(removeAfter/time.Second)
}

// pausedInstance is what the controller wants of an instance whose Machine is
// ignored: all that it wanted before, and paused.
func pausedInstance(current *v1alpha1.WindowsInstance) (*acwindowsv1alpha1.WindowsInstanceApplyConfiguration, error) {
	want, err := acwindowsv1alpha1.ExtractWindowsInstance(current, instanceManager)
	if err != nil {
		return nil, fmt.Errorf("read managed fields of WindowsInstance %s: %w", client.ObjectKeyFromObject(current), err)
	}
	if want.Spec == nil {
		want.WithSpec(acwindowsv1alpha1.WindowsInstanceSpec())
	}
	want.Spec.WithPaused(true)
	return want, nil
}

// poolFor is what the controller wants of the pool of a MachineSet.
func poolFor(set *machinev1beta1.MachineSet) *acwindowsv1alpha1.WindowsNodePoolApplyConfiguration {
	return acwindowsv1alpha1.WindowsNodePool(set.Name, set.Namespace).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: sourceOf(kindMachineSet, set)}).
		WithOwnerReferences(ownedBy(kindMachineSet, set)).
		WithSpec(acwindowsv1alpha1.WindowsNodePoolSpec().
			WithSource(acwindowsv1alpha1.PoolSource().
				WithMachineSet(acwindowsv1alpha1.SourceReference().WithName(set.Name))))
}

// sourceStatus is what the MachineSet of a pool asks for, nil when there is none.
func sourceStatus(pool *v1alpha1.WindowsNodePool, set *machinev1beta1.MachineSet, platform configv1.PlatformType) (desired int32, condition metav1.Condition) {
	ref := pool.Spec.Source.MachineSet.Name
	condition = metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourceNotFound,
		ObservedGeneration: pool.Generation,
	}
	switch {
	case pool.Name != ref:
		condition.Message = fmt.Sprintf("The pool of a MachineSet has the name of the MachineSet: the Machines of %s belong to a pool %s.", ref, ref)
	case set == nil:
		condition.Message = fmt.Sprintf("There is no MachineSet %s.", client.ObjectKey{Namespace: pool.Namespace, Name: ref})
	case !isWindows(set.Spec.Template.Labels):
		condition.Message = fmt.Sprintf("The template of MachineSet %s has no label %s=%s.", client.ObjectKeyFromObject(set), wmco.MachineOSLabel, wmco.MachineOSWindows)
	default:
		desired = ptr.Deref(set.Spec.Replicas, 1)
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonSynced
		condition.Message = fmt.Sprintf("The MachineSet asks for %d Machines.", desired)
		if desired == 1 {
			condition.Message = "The MachineSet asks for 1 Machine."
		}
		if wmco.RenamesComputer(platform) && len(set.Name) > maxSetName {
			condition.Message += fmt.Sprintf(" Its name has more than %d characters: Windows cannot have the names of its Machines, and hosts keep their own.", maxSetName)
		}
	}
	return desired, condition
}
