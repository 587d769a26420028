// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstance is one Windows Server host: how it is reached over SSH, and
// what is known of it. Most instances are created for you from an entry of the
// windows-instances ConfigMap or from a Machine; you may also create one by hand.
// Its logs can be read at any time through the subresource log, also when the
// kubelet of the host is dead or never ran.
type WindowsInstance struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceSpec
	Status WindowsInstanceStatus
}

// WindowsInstanceSpec describes how a host is reached.
type WindowsInstanceSpec struct {
	Address              string
	Port                 int32
	Username             string
	HostKeys             []string
	CredentialsSecretRef *SecretReference
	Bastion              *Bastion
	PoolRef              *PoolReference
	Paused               bool
	ProviderID           string
	NodeName             string
	Removal              *RemovalOptions
}

// RemovalPolicy is what happens to a host whose WindowsInstance is deleted.
type RemovalPolicy string

// RemovalAbandon is the policy that leaves the host as it is.
const RemovalAbandon RemovalPolicy = "Abandon"

// RemovalOptions describe what happens to a host whose WindowsInstance is deleted.
type RemovalOptions struct {
	Policy       RemovalPolicy
	AfterSeconds *int64
}

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	Name string
}

// Bastion is an SSH server through which hosts are reached that cannot be connected to directly.
type Bastion struct {
	Address              string
	Port                 int32
	Username             string
	HostKeys             []string
	CredentialsSecretRef SecretReference
}

// Keys are the host keys that the bastion may present. No bastion has none.
func (b *Bastion) Keys() []string {
	if b == nil {
		return nil
	}
	return b.HostKeys
}

// PoolReference names a WindowsNodePool in the namespace of the object that refers to it.
type PoolReference struct {
	Name string
}

// WindowsInstancePhase is a one-word summary of a host for people. Programs read
// the conditions instead.
type WindowsInstancePhase string

// WindowsInstanceStatus is what is known of a host. It is written only when it changes.
type WindowsInstanceStatus struct {
	ObservedGeneration   int64
	Phase                WindowsInstancePhase
	Conditions           []metav1.Condition
	Addresses            []string
	HostIP               string
	Bastion              string
	HostKeys             []HostKeyStatus
	Credentials          *CredentialsStatus
	Node                 *NodeReference
	MachineID            string
	System               *SystemStatus
	WindowsUpdates       *WindowsUpdatesStatus
	Version              string
	CurrentRevision      string
	DesiredRevision      string
	DesiredPoolRevision  string
	PoolRevision         string
	PreviousPoolRevision string
	Pool                 *KnownPool
	UnconfirmedSince     *metav1.Time
	NodeNotReadyTimes    []metav1.Time
	RestartedAt          *metav1.Time
	Operation            *Operation
	History              []Operation
}

// HostKeyTrust is why a host key is trusted.
type HostKeyTrust string

// CredentialsStatus is what a host accepts of us.
type CredentialsStatus struct {
	KeyFingerprint string
	RotatingTo     string
}

// HostKeyStatus is a host key that is trusted.
type HostKeyStatus struct {
	Type        string
	Fingerprint string
	Key         string
	FirstSeen   metav1.Time
	TrustedBy   HostKeyTrust
}

// NodeReference names the Node of a host.
type NodeReference struct {
	Name string
	UID  types.UID
}

// KnownPool is a pool that was seen.
type KnownPool struct {
	Name string
	UID  types.UID
}

// WindowsUpdatesStatus counts the updates of Windows that wait to be installed on a host.
type WindowsUpdatesStatus struct {
	SearchedAt *metav1.Time
	Pending    int32
	Security   int32
	Failed     []FailedUpdate
	Message    string
}

// FailedUpdate is an update of Windows that could not be installed on a host.
type FailedUpdate struct {
	Name        string
	Security    bool
	RetryAt     metav1.Time
	Step        string
	Interactive bool
	Message     string
}

// SystemStatus is what a host reports about itself. Values that change all the time
// are left out, so that an unchanged host causes no writes.
type SystemStatus struct {
	Product      string
	Build        string
	Architecture string
	Hostname     string
	NodeName     string
	FQDN         string
	CPUs         int32
	Memory       *resource.Quantity
	BootTime     *metav1.Time
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceList is a list of WindowsInstances.
type WindowsInstanceList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []WindowsInstance
}
