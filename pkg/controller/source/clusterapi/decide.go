// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// snapshot has everything that decides about an instance.
type snapshot struct {
	// cluster is the Cluster that this very cluster is. Nil: it is not there.
	cluster *capi.Cluster
	// machine has the name of the instance, and is of the cluster. Nil: there is none.
	machine *capi.Machine
	// instance belongs to a Machine of that name. Nil: there is none that does.
	instance *v1alpha1.WindowsInstance
	// ofAnotherCluster: there is one of that name, which is not of the cluster.
	ofAnotherCluster bool
	// alsoOfMachineAPI: the host has a Machine of the Machine API as well.
	alsoOfMachineAPI bool
}

// decide says what is to be done about an instance, and if it is paused because of what. It depends on nothing else.
func decide(s snapshot) (action machine.Action, paused string) {
	if paused = s.pausedBy(); paused != "" {
		return machine.Pause, paused
	}
	switch {
	case s.ofAnotherCluster: // also if the flag has named another Cluster before: that must not remove all hosts
		return machine.Leave, ""
	case s.machine == nil, s.instance != nil && s.ofAnother():
		return machine.Remove, ""
	case !s.machine.DeletionTimestamp.IsZero() && awaitsDrain(s.machine):
		return machine.Leave, ""
	case !s.machine.DeletionTimestamp.IsZero():
		return machine.Remove, ""
	case !isWindows(s.machine.Labels):
		return machine.Keep, ""
	case s.machine.Labels[wmco.IgnoreLabel] == wmco.IgnoreValue:
		return machine.Pause, ""
	case s.alsoOfMachineAPI:
		return machine.Leave, ""
	case s.machine.Provisioned() && machine.Address(s.machine.Status.Addresses, "") != "":
		return machine.Apply, ""
	}
	return machine.Leave, ""
}

// pausedBy says what keeps Cluster API from the host: while it does, a Machine that is gone may be in another cluster. Empty: nothing.
func (s snapshot) pausedBy() string {
	switch {
	case s.cluster == nil:
		return "there is no such Cluster"
	case ptr.Deref(s.cluster.Spec.Paused, false):
		return "spec.paused of the Cluster is true"
	case capi.IsPaused(s.cluster):
		return "the Cluster has the annotation " + capi.PausedAnnotation
	case s.machine != nil && capi.IsPaused(s.machine):
		return "the Machine has the annotation " + capi.PausedAnnotation
	}
	return ""
}

// ofAnother says whether an instance was made from another host with a Machine of the same name. A Machine that has come back from another
// cluster has another UID, and the same machine at its provider.
func (s snapshot) ofAnother() bool {
	uid := s.instance.Annotations[v1alpha1.MachineUIDAnnotation]
	if uid == "" || uid == string(s.machine.UID) {
		return false
	}
	before := s.instance.Spec.ProviderID
	return before == "" || before != s.machine.Spec.ProviderID
}

// awaitsDrain says whether somebody has a hook on a Machine that keeps Cluster API from draining its Node, which then must not be drained by the
// removal of the host either. Cluster API asks nobody about a Machine without a Node.
func awaitsDrain(m *capi.Machine) bool {
	if m.Status.NodeRef == nil || m.Status.NodeRef.Name == "" {
		return false
	}
	for key := range m.Annotations {
		if strings.HasPrefix(key, capi.PreDrainHookPrefix) {
			return true
		}
	}
	return false
}

// isWindows says whether labels are those of a Machine of Windows.
func isWindows(labels map[string]string) bool {
	return labels[wmco.MachineOSLabel] == wmco.MachineOSWindows || labels[corev1.LabelOSStable] == string(corev1.Windows)
}

// belongs says whether an instance was made from the Machine of its name, be it this one or one of the same name before it.
func belongs(instance *v1alpha1.WindowsInstance) bool {
	return instance.Annotations[v1alpha1.SourceAnnotation] == origin.ClusterAPISource(capi.KindMachine, instance)
}

// managementOf says who makes the host of a Machine a node: we do with our user data, and nobody else does then; in every other case
// whoever has made its bootstrap data.
func managementOf(m *capi.Machine) v1alpha1.ManagementPolicy {
	bootstrap := m.Spec.Bootstrap
	configured := bootstrap.ConfigRef != nil && bootstrap.ConfigRef.Name != ""
	if !configured && ptr.Deref(bootstrap.DataSecretName, "") == wmco.UserDataSecret {
		return v1alpha1.ManagementManaged
	}
	return v1alpha1.ManagementObserved
}
