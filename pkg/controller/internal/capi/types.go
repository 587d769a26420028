// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package capi

import (
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Group is that of Cluster API.
const Group = "cluster.x-k8s.io"

// Kinds of it.
const (
	KindCluster           = "Cluster"
	KindMachineDeployment = "MachineDeployment"
	KindMachineSet        = "MachineSet"
	KindMachine           = "Machine"
)

// Versions are those that the types here are read from, the newest first. What they have of them has the same names in both.
var Versions = []string{"v1beta2", "v1beta1"}

// Annotations of Cluster API.
const (
	// PausedAnnotation, with any value, keeps the controllers of Cluster API from an object.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// PreDrainHookPrefix is what annotations of a Machine begin with that keep its Node from being drained.
	PreDrainHookPrefix = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
)

// Has says whether an API version is one of Cluster API.
func Has(apiVersion string) bool { return strings.HasPrefix(apiVersion, Group+"/") }

// Cluster is a cluster that Cluster API manages.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec,omitempty"`
}

// ClusterSpec is of the spec what is used here.
type ClusterSpec struct {
	Paused *bool `json:"paused,omitempty"`
}

// Machine is a host that Cluster API makes.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec is of the spec what is used here.
type MachineSpec struct {
	ClusterName       string     `json:"clusterName,omitempty"`
	Bootstrap         Bootstrap  `json:"bootstrap,omitempty"`
	InfrastructureRef *Reference `json:"infrastructureRef,omitempty"`
	ProviderID        string     `json:"providerID,omitempty"`
}

// Bootstrap says how a host becomes a Node.
type Bootstrap struct {
	ConfigRef      *Reference `json:"configRef,omitempty"`
	DataSecretName *string    `json:"dataSecretName,omitempty"`
}

// Reference names another object.
type Reference struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// MachineStatus is of the status what is used here.
type MachineStatus struct {
	// Phase is one word about the Machine.
	Phase string `json:"phase,omitempty"`
	// Initialization is not in v1beta1.
	Initialization *MachineInitialization `json:"initialization,omitempty"`
	Addresses      []corev1.NodeAddress   `json:"addresses,omitempty"`
	NodeRef        *Reference             `json:"nodeRef,omitempty"`
}

// MachineInitialization says how far a Machine is.
type MachineInitialization struct {
	InfrastructureProvisioned *bool `json:"infrastructureProvisioned,omitempty"`
}

// MachineSet is a number of equal Machines.
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SetSpec `json:"spec,omitempty"`
}

// MachineDeployment makes MachineSets, one for each version of its template.
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SetSpec `json:"spec,omitempty"`
}

// SetSpec is what is used here of the specs of MachineSets and MachineDeployments.
type SetSpec struct {
	ClusterName string          `json:"clusterName,omitempty"`
	Replicas    *int32          `json:"replicas,omitempty"`
	Template    MachineTemplate `json:"template,omitempty"`
}

// MachineTemplate is what Machines are made from.
type MachineTemplate struct {
	Metadata TemplateMetadata `json:"metadata,omitempty"`
}

// TemplateMetadata is of the metadata what is used here.
type TemplateMetadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// ClusterList is a list of Clusters.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Cluster `json:"items"`
}

// MachineList is a list of Machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Machine `json:"items"`
}

// MachineSetList is a list of MachineSets.
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineSet `json:"items"`
}

// MachineDeploymentList is a list of MachineDeployments.
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineDeployment `json:"items"`
}

// AddToScheme adds the types as those of a version.
func AddToScheme(scheme *runtime.Scheme, version string) {
	gv := schema.GroupVersion{Group: Group, Version: version}
	scheme.AddKnownTypes(gv, &Cluster{}, &ClusterList{}, &Machine{}, &MachineList{}, &MachineSet{}, &MachineSetList{}, &MachineDeployment{}, &MachineDeploymentList{})
	metav1.AddToGroupVersion(scheme, gv)
}

// Provisioned says whether the host of a Machine is there.
func (m *Machine) Provisioned() bool {
	if i := m.Status.Initialization; i != nil && i.InfrastructureProvisioned != nil && *i.InfrastructureProvisioned {
		return true
	}
	return m.Status.Phase == "Provisioned" || m.Status.Phase == "Running"
}

// IsPaused says whether Cluster API is to leave an object alone, by its annotation.
func IsPaused(o metav1.Object) bool {
	_, paused := o.GetAnnotations()[PausedAnnotation]
	return paused
}

// IsAlso says whether a Machine is the same host as one of the Machine API: OpenShift keeps one of each group while its clusters move from
// one to the other.
func (m *Machine) IsAlso(other *machinev1beta1.Machine) bool {
	id := other.Spec.ProviderID
	return other.Namespace == wmco.MachineAPINamespace && other.Name == m.Name || m.Spec.ProviderID != "" && id != nil && *id == m.Spec.ProviderID
}

// AsOfMachineAPI is a Machine as one of the Machine API: the same host, with its name, its Node and its addresses.
func (m *Machine) AsOfMachineAPI() *machinev1beta1.Machine {
	same := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID}}
	same.Status.Addresses = m.Status.Addresses
	if m.Status.NodeRef != nil {
		same.Status.NodeRef = &corev1.ObjectReference{Name: m.Status.NodeRef.Name}
	}
	return same
}
