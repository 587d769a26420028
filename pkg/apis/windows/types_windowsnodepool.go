// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsNodePool is a set of Windows Server hosts that come from one source and
// are treated alike. Pools of a MachineSet and of the windows-instances ConfigMap
// are created for you; create a pool of instances made by hand yourself.
type WindowsNodePool struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsNodePoolSpec
	Status WindowsNodePoolStatus
}

// WindowsNodePoolSpec describes where the hosts of a pool come from and what they have in common.
type WindowsNodePoolSpec struct {
	Source         PoolSource
	Paused         bool
	Template       PoolTemplate
	UpdateStrategy PoolUpdateStrategy
	Restarts       PoolRestarts
	WindowsUpdates PoolWindowsUpdates
	Remediation    *PoolRemediation
}

// PoolRestartPolicy is when the controller restarts Windows by itself.
type PoolRestartPolicy string

// PoolRestarts says when Windows is restarted on the hosts of a pool.
type PoolRestarts struct {
	Policy PoolRestartPolicy
	After  *metav1.Time
}

// WindowsUpdatesInstall is which updates of Windows are installed.
type WindowsUpdatesInstall string

// PoolWindowsUpdates says which updates of Windows are installed on the hosts of a pool.
type PoolWindowsUpdates struct {
	Install WindowsUpdatesInstall
}

// PoolRemediationAction is what is done about a host whose Node is not ready.
type PoolRemediationAction string

// PoolRemediation describes what is done about hosts whose Nodes are not ready.
type PoolRemediation struct {
	AfterSeconds *int64
	Actions      []PoolRemediationAction
	MaxUnhealthy *intstr.IntOrString
}

// PoolUpdateStrategy describes how the controller changes and removes the hosts of a pool.
type PoolUpdateStrategy struct {
	Type          PoolUpdateStrategyType
	RollingUpdate PoolRollingUpdate
	Window        *MaintenanceWindow
	Drain         PoolDrainOptions
}

// PoolUpdateStrategyType is when the hosts of a pool get a new configuration.
type PoolUpdateStrategyType string

// PoolFailurePolicy is what happens to hosts that an update broke.
type PoolFailurePolicy string

// PoolRollingUpdate describes how the hosts of a pool are updated one after the other.
type PoolRollingUpdate struct {
	MaxUnavailable *intstr.IntOrString
	Canary         *intstr.IntOrString
	MaxFailures    *int32
	OnFailure      PoolFailurePolicy
	ResumedAt      *metav1.Time
	Undo           *PoolUndo
	SettleSeconds  *int32
}

// PoolUndo asks for a revision of a pool to be undone.
type PoolUndo struct {
	Revision    string
	To          string
	Reason      string
	RequestedBy string
	RequestedAt *metav1.Time
}

// MaintenanceWindow is a time in which hosts may be disturbed.
type MaintenanceWindow struct {
	Schedule        string
	DurationSeconds int64
	TimeZone        string
}

// PoolDrainOptions say how pods leave the Nodes of a pool before the controller changes or
// removes a host.
type PoolDrainOptions struct {
	GracePeriodSeconds              *int64
	TimeoutSeconds                  *int64
	DeleteEmptyDirData              *bool
	Force                           *bool
	SkipWaitForDeleteTimeoutSeconds *int32
}

// PoolSource is where the hosts of a pool come from. Exactly one member is set.
type PoolSource struct {
	MachineSet *SourceReference
	ConfigMap  *SourceReference
	Instances  *InstancesSource
}

// SourceReference names an object in the namespace of the pool.
type SourceReference struct {
	Name string
}

// InstancesSource stands for the WindowsInstances that name the pool in spec.poolRef.
type InstancesSource struct{}

// PoolTemplate is what every host of a pool gets.
type PoolTemplate struct {
	CredentialsSecretRef *SecretReference
	Bastion              *Bastion
	NodeLabels           map[string]string
	NodeTaints           []NodeTaint
	Kubelet              *KubeletTemplate
	Containerd           *ContainerdTemplate
	LogRotation          *LogRotationTemplate
}

// NodeTaintEffect is what a taint does to pods that do not tolerate it.
type NodeTaintEffect string

// NodeTaint is a taint of a Node.
type NodeTaint struct {
	Key    string
	Value  string
	Effect NodeTaintEffect
}

// KubeletTemplate has the settings of the kubelets of a pool.
type KubeletTemplate struct {
	MaxPods        *int32
	SystemReserved corev1.ResourceList
	KubeReserved   corev1.ResourceList
	EvictionHard   map[string]string
	LogVerbosity   *int32
}

// ContainerdLogLevel is how much containerd logs.
type ContainerdLogLevel string

// ContainerdTemplate has the settings of containerd on the hosts of a pool.
type ContainerdTemplate struct {
	SandboxImage string
	LogLevel     ContainerdLogLevel
}

// LogRotationTemplate describes when the logs of the services of a host are rotated.
type LogRotationTemplate struct {
	MaxSize       *resource.Quantity
	MaxAgeSeconds *int64
}

// WindowsNodePoolPhase is a one-word summary of a pool for people.
type WindowsNodePoolPhase string

// PoolPending is the phase of a pool that no controller has seen yet.
const PoolPending WindowsNodePoolPhase = "Pending"

// PoolRemoval is the removal of a host by the controller of the source.
type PoolRemoval struct {
	Name      string
	Time      metav1.Time
	Confirmed bool
}

// PoolConfirmedRemovals stands for hosts whose removal somebody has confirmed.
type PoolConfirmedRemovals struct {
	Count  int32
	Digest string
}

// PoolRollback says that a pool does not roll out a revision, because that broke hosts or somebody has undone it.
type PoolRollback struct {
	Revision        string
	To              string
	Time            metav1.Time
	RequestedBy     string
	Instances       []string
	WithoutPrograms []string
	Message         string
}

// WindowsNodePoolStatus is what is known of a pool.
type WindowsNodePoolStatus struct {
	ObservedGeneration  int64
	Phase               WindowsNodePoolPhase
	DesiredReplicas     int32
	Replicas            int32
	ReadyReplicas       int32
	UpdatedReplicas     int32
	UnavailableReplicas int32
	UpdateRevision      string
	CurrentRevision     string
	WorkedRevisions     []string
	RolledBack          *PoolRollback
	BlockedBy           string
	RecentRemovals      []PoolRemoval
	ConfirmedRemovals   *PoolConfirmedRemovals
	Conditions          []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsNodePoolList is a list of WindowsNodePools.
type WindowsNodePoolList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []WindowsNodePool
}
