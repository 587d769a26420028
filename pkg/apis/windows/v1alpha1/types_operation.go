// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperationType is what an operation does.
// +enum
// +k8s:enum
type OperationType string

const (
	// OperationDrain cordons the Node of the host and evicts its pods.
	OperationDrain OperationType = "Drain"
	// OperationUncordon makes the Node of the host schedulable again.
	OperationUncordon OperationType = "Uncordon"
	// OperationReboot restarts the host, and proves that it did.
	OperationReboot OperationType = "Reboot"
	// OperationReconfigure brings the host to its desired configuration.
	OperationReconfigure OperationType = "Reconfigure"
	// OperationAdopt takes over a host that the Windows Machine Config Operator has configured, as it is.
	OperationAdopt OperationType = "Adopt"
	// OperationRelease gives a host back to the Windows Machine Config Operator, as it is.
	OperationRelease OperationType = "Release"
	// OperationRestartServices restarts the services of the node, such as containerd and the kubelet, because the
	// Node is not ready. Its pods keep running.
	OperationRestartServices OperationType = "RestartServices"
	// OperationRemove removes everything from the host that was installed on it, because its
	// WindowsInstance was deleted.
	OperationRemove OperationType = "Remove"
)

// OperationCause is why the controller recorded an operation.
type OperationCause string

const (
	// CauseRestartRequested means that the pool asks for a restart of its hosts.
	CauseRestartRequested OperationCause = "RestartRequested"
	// CauseRestartPending means that Windows waits for a restart, and the pool allows it.
	CauseRestartPending OperationCause = "RestartPending"
	// CauseWindowsUpdates means that updates of Windows wait, and the pool has them installed.
	CauseWindowsUpdates OperationCause = "WindowsUpdates"
	// CauseNodeNotReady means that the Node is not ready, and the pool has it repaired.
	CauseNodeNotReady OperationCause = "NodeNotReady"
	// CauseCameBack means that a restart had failed and left the Node cordoned, and the Node
	// is ready again.
	CauseCameBack OperationCause = "CameBack"
	// CauseVersionChanged means that the annotation of the Node with the version which configured it was removed or
	// changed, by which administrators ask for a new configuration.
	CauseVersionChanged OperationCause = "VersionChanged"
	// CauseRestartAnnotated means that an annotation of the Node asks for a restart.
	CauseRestartAnnotated OperationCause = "RestartAnnotated"
)

// OperationPhase is how far an operation has come. Later releases may have other phases; an
// operation has ended when it has finishedAt.
// +enum
// +k8s:enum
type OperationPhase string

const (
	// OperationPending means that the operation is recorded and has not started.
	OperationPending OperationPhase = "Pending"
	// OperationRunning means that the operation is running.
	OperationRunning OperationPhase = "Running"
	// OperationSucceeded means that the operation did what was requested.
	OperationSucceeded OperationPhase = "Succeeded"
	// OperationFailed means that the operation ended without success; the message explains why and what to do.
	OperationFailed OperationPhase = "Failed"
	// OperationCanceled means that a user ended the operation, or the controller one that was no longer wanted; the message describes in what state the host was left.
	OperationCanceled OperationPhase = "Canceled"
)

// OperationOrigin is who requested an operation.
// +enum
// +k8s:enum
type OperationOrigin string

const (
	// OriginController means that the controller recorded the operation because the host needed it.
	OriginController OperationOrigin = "Controller"
	// OriginUser means that a user requested the operation, whatever their name is.
	OriginUser OperationOrigin = "User"
)

// OperationStepState is how far a step of an operation has come. Later releases may have other states.
// +enum
// +k8s:enum
type OperationStepState string

const (
	// StepPending means that the step has not started.
	StepPending OperationStepState = "Pending"
	// StepRunning means that the step is running.
	StepRunning OperationStepState = "Running"
	// StepSucceeded means that the step is done.
	StepSucceeded OperationStepState = "Succeeded"
	// StepSkipped means that the step was not needed; the message explains why.
	StepSkipped OperationStepState = "Skipped"
	// StepFailed means that the step failed; the message explains why.
	StepFailed OperationStepState = "Failed"
	// StepCanceled means that the step was interrupted because a user or the controller requested the end of the operation, or the instance was deleted.
	StepCanceled OperationStepState = "Canceled"
)

// Operation is an action on a host: what was requested, by whom, and how far it has come.
// The controller runs it, and continues where it was when it is restarted.
// +structType=atomic
type Operation struct {
	// Identifies the operation; the answer to the request that recorded it has it too.
	ID string `json:"id"`
	// What it does: Drain, Uncordon, Reboot, Reconfigure, Adopt, Release, RestartServices or Remove.
	// +k8s:required
	Type OperationType `json:"type"`
	// How far it is: Pending, Running, Succeeded, Failed or Canceled. Later releases may have
	// others: it has ended when it has finishedAt.
	// +k8s:required
	Phase OperationPhase `json:"phase"`
	// User who requested it.
	RequestedBy string `json:"requestedBy"`
	// Who wanted it: Controller, because the host needed it, or User. Empty: it was recorded by a
	// release that did not know this field; see requestedBy, which is windows-controller for
	// operations of the controller.
	// +optional
	// +k8s:optional
	Origin OperationOrigin `json:"origin,omitempty"`
	// Why the controller recorded it by itself, where its type does not tell: RestartRequested
	// (spec.restarts.after of the pool), RestartPending (Windows waits for a restart), WindowsUpdates (spec.windowsUpdates of the pool), NodeNotReady (spec.remediation of
	// the pool), CameBack (the Node is ready again that a failed restart had left cordoned), VersionChanged (the
	// annotation windowsmachineconfig.openshift.io/version of the Node was removed or changed) or RestartAnnotated (the Node has the
	// annotation windowsmachineconfig.openshift.io/reboot-required). Later releases may have others. Empty: it is a user's, or there is nothing to add.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=64
	Cause OperationCause `json:"cause,omitempty"`
	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`
	// When it started. Empty: it has not started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it ended. Empty: it has not ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// What is going on, or how it ended, for people.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
	// How much of the step that runs is done, where that can be counted.
	// +optional
	Progress *OperationProgress `json:"progress,omitempty"`
	// The steps, in their order. Operations of status.history have none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +k8s:optional
	// +k8s:listType=map
	// +k8s:listMapKey=name
	// +k8s:maxItems=64
	Steps []OperationStep `json:"steps,omitempty"`
	// Pods whose eviction is refused at the moment, at most sixteen of them.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:listType=atomic
	// +k8s:maxItems=16
	BlockedBy []BlockedPod `json:"blockedBy,omitempty"`
	// What a drain, or the drain of a reboot, was asked to do. In operations of the controller, and in each reconfigure and removal, the options of the
	// pool that the Node was drained with last; when pods did not leave, and these are changed since, the next attempt comes soon.
	// Empty there: it was not drained, or an earlier release recorded the operation.
	// +optional
	// +k8s:optional
	Drain *DrainOptions `json:"drain,omitempty"`
	// What a reboot was asked to do.
	// +optional
	// +k8s:optional
	Reboot *RebootOptions `json:"reboot,omitempty"`
	// The Node that the operation works on, and how it was before. Empty: there is none.
	// +optional
	Node *OperationNode `json:"node,omitempty"`
	// Name of the Node that the host is given credentials to become, as it said when it was asked.
	// Empty: it does not join.
	// +optional
	JoinsAs string `json:"joinsAs,omitempty"`
	// What identified the boot of the host before it was restarted. The restart is
	// proven when the host answers with another one.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// What a reconfigure brings the host to, as in desiredRevision. Empty: not known yet.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Revision of the pool that a reconfigure gives the host: the name of its ControllerRevision, as in desiredPoolRevision. Empty: not known
	// yet, the host is in no pool or gets the template of one revision with the programs of another, or an earlier release recorded the operation.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=253
	PoolRevision string `json:"poolRevision,omitempty"`
	// What a reconfigure costs the workload of the host: None, Restart (services are
	// restarted), Drain or Reboot. Empty: not known yet.
	// +optional
	// +k8s:optional
	Impact ChangeImpact `json:"impact,omitempty"`
	// The most that a reconfigure may cost the workload of the host, as the policy of its pool has allowed:
	// None, Restart, Drain or Reboot. One that costs more is withdrawn and recorded again, or waits if its host was changed. A removal waits for Drain, or for None if it waits for no
	// other host, and updates of Windows that the pool wants wait for Reboot when they were downloaded. Empty: nothing was allowed yet, or need be.
	// +optional
	// +k8s:optional
	AdmittedImpact ChangeImpact `json:"admittedImpact,omitempty"`
	// Whether a reconfigure has begun to change the host: its agent has reported a first
	// change, or the connection was lost so that nobody knows; or a removal found that the host
	// was configured; or an adoption has made the host ours. The oldest operation in status.history is true also if one that was
	// dropped before it was. Empty: the host is as it was.
	// +optional
	HostChanged bool `json:"hostChanged,omitempty"`
	// Whether a release has given the host up. From then on the host is that of others, and what operations before it did to the
	// host does not count any more. Empty: it has not.
	// +optional
	HostReleased bool `json:"hostReleased,omitempty"`
	// Whether a release may have begun on the host, and is not known to have completed. Then nothing configures the host
	// by itself, until somebody requests the release again, which completes it, or a reconfigure, which keeps the host. The oldest
	// operation in status.history is true also if one that was dropped before it was. Empty: it has completed, or the host was
	// surely not changed.
	// +optional
	ReleaseBegun bool `json:"releaseBegun,omitempty"`
	// Whether a reconfigure has the host join the cluster again, because its kubelet has no client
	// certificate that it can use. The Node stays the same. It is true until the host has joined, so
	// that of an operation which has ended it says that the host did not. Empty: the host has no
	// Node yet, or its kubelet can report.
	// +optional
	JoinsAgain bool `json:"joinsAgain,omitempty"`
	// Whether an operation of status.history ended before it did anything to the host or to its
	// Node, for example because the host could not be reached. Empty: it did, or that is not
	// known; of status.operation the steps tell.
	// +optional
	HostUntouched bool `json:"hostUntouched,omitempty"`
	// Who requested its end: a user, or windows-controller. Empty: nobody.
	// +optional
	CancelRequestedBy string `json:"cancelRequestedBy,omitempty"`
	// When its end was requested. Empty: it was not.
	// +optional
	CancelRequestedAt *metav1.Time `json:"cancelRequestedAt,omitempty"`
}

// OperationStep is a part of an operation.
type OperationStep struct {
	// Names the step, for example Cordon, Drain, Restart.
	Name string `json:"name"`
	// How far it is: Pending, Running, Succeeded, Skipped, Failed or Canceled. Later releases
	// may have others.
	// +k8s:required
	State OperationStepState `json:"state"`
	// When it started. Empty: it has not started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// When it ended. Empty: it has not ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// What is going on, or how it ended, for people.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
}

// OperationProgress counts what is done.
type OperationProgress struct {
	// How many are done.
	Done int32 `json:"done"`
	// How many there are.
	Total int32 `json:"total"`
	// What is counted, for example pods.
	Unit string `json:"unit"`
}

// BlockedPod is a pod that cannot be evicted at the moment.
type BlockedPod struct {
	// Namespace of the pod.
	Namespace string `json:"namespace"`
	// Name of the pod.
	Name string `json:"name"`
	// Name of the PodDisruptionBudget that does not allow the eviction. Empty: it is
	// something else, see message.
	// +optional
	Budget string `json:"budget,omitempty"`
	// Why, for people.
	// +optional
	// +k8s:optional
	// +k8s:maxBytes=4096
	Message string `json:"message,omitempty"`
}

// OperationNode is a Node that an operation works on.
type OperationNode struct {
	// Name of the Node.
	Name string `json:"name"`
	// UID of the Node.
	UID types.UID `json:"uid"`
	// Whether the Node was cordoned before the operation cordoned it. Such a Node stays so, unless an earlier operation that
	// failed had left it cordoned, or the operation is Uncordon.
	// +optional
	WasUnschedulable bool `json:"wasUnschedulable,omitempty"`
}

// DrainOptions say how pods leave a Node. They are those of kubectl drain.
type DrainOptions struct {
	// Seconds that each pod gets to end, in place of its own
	// terminationGracePeriodSeconds. 0 kills pods at once. Empty: that of each pod; 1 when the cluster
	// has not reached the Node for a minute, so that nothing there can end a pod gracefully.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// Seconds after which the drain fails when pods are still there. 0: never. Default 600.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
	// Whether pods of DaemonSets may stay; otherwise the drain fails where there are
	// any, as their controller would recreate them at once. Default true.
	// +optional
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`
	// Whether pods with emptyDir volumes are evicted too; what they hold is lost.
	// While false the drain fails where there are any. Default false.
	// +optional
	DeleteEmptyDirData bool `json:"deleteEmptyDirData,omitempty"`
	// Whether pods that no controller manages are evicted too; nothing recreates them.
	// While false the drain fails where there are any. Default false.
	// +optional
	Force bool `json:"force,omitempty"`
	// Whether pods are deleted and not evicted, which passes over
	// PodDisruptionBudgets. Default false.
	// +optional
	DisableEviction bool `json:"disableEviction,omitempty"`
	// Label selector of the pods to evict, as in kubectl. Empty: all.
	// +optional
	// +k8s:optional
	// +k8s:maxLength=4096
	PodSelector string `json:"podSelector,omitempty"`
	// Seconds after the end of its grace period from which on a pod that is being deleted is no longer waited for, for
	// example because its kubelet is dead. 0: it is waited for until the timeout. Empty: 60 while the Node is not ready,
	// and otherwise 0.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +k8s:maximum=604800
	SkipWaitForDeleteTimeoutSeconds *int32 `json:"skipWaitForDeleteTimeoutSeconds,omitempty"`
}

// RebootMode is how a host is restarted.
// +enum
// +k8s:enum
type RebootMode string

const (
	// RebootGraceful drains the node, restarts the host, waits until the node is ready again, and uncordons it.
	RebootGraceful RebootMode = "Graceful"
	// RebootIfPending does the same if Windows waits for a restart, and nothing otherwise.
	RebootIfPending RebootMode = "IfPending"
	// RebootForce restarts the host without draining it; its pods are cut off.
	RebootForce RebootMode = "Force"
)

// RebootOptions say how a host is restarted.
type RebootOptions struct {
	// Graceful (default): cordon, drain, restart, wait for the Node, uncordon. It fails before the drain while people are
	// logged on to the host, or if the SSH server of the host does not start with Windows. IfPending: the same, only if Windows waits for a restart. Force: restart at once, without a
	// drain, whoever is logged on.
	// +optional
	// +k8s:optional
	Mode RebootMode `json:"mode,omitempty"`
	// Updates of Windows that are downloaded before the drain and installed after it: None, Security or All. Where none
	// wait the host is left as it is. Not allowed with a mode other than Graceful. Empty: the same as None.
	// +optional
	// +k8s:optional
	InstallUpdates WindowsUpdatesInstall `json:"installUpdates,omitempty"`
	// Seconds that the host gets from its restart until its Node is ready. Default 1200, and 3600 with
	// updates to install, mode IfPending, or a host whose condition RebootRequired is True. In operations of the controller
	// each step has a time of its own, the restart an hour.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=604800
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
}
