// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// azureMachine is the kind of Machines of Azure at their provider, whose images have another user than those of others.
const azureMachine = "AzureMachine"

// usernameOf returns the user to log in to the host of a Machine as. The provider decides where the platform of the cluster is not known.
func usernameOf(m *capi.Machine, platform configv1.PlatformType) string {
	if ref := m.Spec.InfrastructureRef; ref != nil && ref.Kind == azureMachine {
		platform = configv1.AzurePlatformType
	}
	return wmco.MachineUsername(platform)
}

// instanceFor is what the controller wants of the instance of a Machine. What it leaves out, such as credentials or host keys, belongs to
// people. current is the instance as it is, nil when there is none.
//
// It has no owner: the garbage collector would delete it, and have its host cleaned, when the Machine is moved to another cluster.
func instanceFor(m *capi.Machine, current *v1alpha1.WindowsInstance, pool, computerName string, platform configv1.PlatformType) *acwindowsv1alpha1.WindowsInstanceApplyConfiguration {
	address := ""
	if current != nil {
		address = current.Spec.Address
	}
	spec := acwindowsv1alpha1.WindowsInstanceSpec().
		WithAddress(machine.Address(m.Status.Addresses, address)).
		WithPort(v1alpha1.DefaultPort).
		WithUsername(usernameOf(m, platform)).
		WithManagement(managementOf(m))
	if !machine.RemovalChosen(current) {
		spec.WithRemoval(acwindowsv1alpha1.RemovalOptions().WithAfterSeconds(int64(machine.RemoveAfter / time.Second)))
	}
	if computerName != "" {
		spec.WithNodeName(computerName)
	}
	if pool != "" {
		spec.WithPoolRef(acwindowsv1alpha1.PoolReference().WithName(pool))
	}
	if m.Spec.ProviderID != "" {
		spec.WithProviderID(m.Spec.ProviderID)
	}
	return acwindowsv1alpha1.WindowsInstance(m.Name, m.Namespace).
		WithAnnotations(map[string]string{
			v1alpha1.SourceAnnotation:     origin.ClusterAPISource(capi.KindMachine, m),
			v1alpha1.MachineUIDAnnotation: string(m.UID),
		}).
		WithSpec(spec)
}

// source is what a pool is made from: a MachineDeployment, or a MachineSet.
type source struct {
	kind     v1alpha1.ClusterAPIKind
	object   client.Object
	replicas int32
	windows  bool
}

func sourceOfSet(kind v1alpha1.ClusterAPIKind, object client.Object, spec *capi.SetSpec) *source {
	return &source{kind: kind, object: object, replicas: ptr.Deref(spec.Replicas, 1), windows: isWindows(spec.Template.Metadata.Labels)}
}

// asksFor says whether a pool has the source of its own name.
func asksFor(pool *v1alpha1.WindowsNodePool, s *source) bool {
	ref := pool.Spec.Source.ClusterAPI
	return ref != nil && ref.Kind == s.kind && ref.Name == s.object.GetName() && pool.Name == ref.Name
}

// poolFor is what the controller wants of the pool of a source. It has no owner, for the reason of [instanceFor].
func poolFor(s *source) *acwindowsv1alpha1.WindowsNodePoolApplyConfiguration {
	return acwindowsv1alpha1.WindowsNodePool(s.object.GetName(), s.object.GetNamespace()).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: origin.ClusterAPISource(string(s.kind), s.object)}).
		WithSpec(acwindowsv1alpha1.WindowsNodePoolSpec().
			WithSource(acwindowsv1alpha1.PoolSource().
				WithClusterAPI(acwindowsv1alpha1.ClusterAPISource().WithKind(s.kind).WithName(s.object.GetName()))))
}

// made says whether a pool was made from a source of its name.
func made(pool *v1alpha1.WindowsNodePool) bool {
	for _, kind := range []string{capi.KindMachineDeployment, capi.KindMachineSet} {
		if pool.Annotations[v1alpha1.SourceAnnotation] == origin.ClusterAPISource(kind, pool) {
			return true
		}
	}
	return false
}

// sourceStatus is what the source of a pool asks for, nil when there is none.
func sourceStatus(pool *v1alpha1.WindowsNodePool, s *source, cluster client.ObjectKey) (desired int32, condition metav1.Condition) {
	ref := pool.Spec.Source.ClusterAPI
	condition = metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSourceNotFound,
		ObservedGeneration: pool.Generation,
	}
	switch {
	case pool.Name != ref.Name:
		condition.Message = fmt.Sprintf("The pool of a %s has the name of the %[1]s: the Machines of %[2]s belong to a pool %[2]s.", ref.Kind, ref.Name)
	case s == nil || s.kind != ref.Kind:
		condition.Message = fmt.Sprintf("Cluster %s, which this cluster is, has no %s %s.", cluster, ref.Kind, ref.Name)
		if ref.Kind == v1alpha1.ClusterAPIMachineSet {
			condition.Message = fmt.Sprintf("Cluster %s, which this cluster is, has no MachineSet %s that no MachineDeployment controls.", cluster, ref.Name)
		}
	case !s.windows:
		condition.Message = fmt.Sprintf("The template of %s %s has no label %s=%s.", ref.Kind, client.ObjectKeyFromObject(s.object), wmco.MachineOSLabel, wmco.MachineOSWindows)
	default:
		desired = s.replicas
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonSynced
		condition.Message = fmt.Sprintf("The %s asks for %d Machines.", ref.Kind, desired)
		if desired == 1 {
			condition.Message = fmt.Sprintf("The %s asks for 1 Machine.", ref.Kind)
		}
	}
	return desired, condition
}
