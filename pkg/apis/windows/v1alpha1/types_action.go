// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ActionStatus is the answer to an action.
type ActionStatus struct {
	// The operation that was recorded, or with dryRun=All would be. Its progress is in
	// status.operation of the WindowsInstance.
	// +optional
	// +k8s:optional
	Operation *Operation `json:"operation,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceDrain requests that the Node of a host is cordoned and its pods are
// evicted. It is posted to the subresource drain.
type WindowsInstanceDrain struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How to drain.
	// +optional
	Spec WindowsInstanceDrainSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status ActionStatus `json:"status,omitempty"`
}

// WindowsInstanceDrainSpec describes how to drain.
type WindowsInstanceDrainSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`

	DrainOptions `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceUncordon requests that the Node of a host becomes schedulable again.
// It is posted to the subresource uncordon.
type WindowsInstanceUncordon struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What must hold.
	// +optional
	Spec WindowsInstanceUncordonSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status ActionStatus `json:"status,omitempty"`
}

// WindowsInstanceUncordonSpec has the preconditions of the action.
type WindowsInstanceUncordonSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceReboot requests a restart of a host. It is posted to the subresource reboot.
type WindowsInstanceReboot struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How to restart.
	// +optional
	Spec WindowsInstanceRebootSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status ActionStatus `json:"status,omitempty"`
}

// WindowsInstanceRebootSpec describes how to restart a host.
type WindowsInstanceRebootSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`

	RebootOptions `json:",inline"`
	// How to drain before the restart. Not allowed with mode Force.
	// +optional
	// +k8s:optional
	Drain *DrainOptions `json:"drain,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceReconfigure requests that a host is brought to its desired
// configuration now. What drains or restarts the host waits for a slot of --max-disruptive-operations, and for nothing
// of its pool. It is posted to the subresource reconfigure. With dryRun=All the answer
// lists what would change.
type WindowsInstanceReconfigure struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What must hold.
	// +optional
	Spec WindowsInstanceReconfigureSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status WindowsInstanceReconfigureStatus `json:"status,omitempty"`
}

// WindowsInstanceReconfigureSpec has the preconditions of the action.
type WindowsInstanceReconfigureSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`
}

// WindowsInstanceReconfigureStatus is the answer to a reconfigure.
type WindowsInstanceReconfigureStatus struct {
	ActionStatus `json:",inline"`
	// With dryRun=All: what would change on the host, in the order of the changes.
	// Empty: nothing would.
	// +optional
	// +listType=atomic
	// +k8s:optional
	Plan []PlannedChange `json:"plan,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceAdopt requests that a host which the Windows Machine Config Operator (WMCO) has configured is taken
// over as it is: nothing is restarted, and what differs from the desired configuration waits for the next update of its pool.
// It is refused while WMCO runs. It is posted to the subresource adopt. With dryRun=All the answer lists what is
// removed at once, and what the update will change.
type WindowsInstanceAdopt struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What must hold.
	// +optional
	Spec WindowsInstanceAdoptSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status WindowsInstanceAdoptStatus `json:"status,omitempty"`
}

// WindowsInstanceAdoptSpec has the preconditions of the action.
type WindowsInstanceAdoptSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`
}

// WindowsInstanceAdoptStatus is the answer to an adopt.
type WindowsInstanceAdoptStatus struct {
	ActionStatus `json:",inline"`
	// With dryRun=All: what the adoption removes from the host, and what the next update will change there.
	// +optional
	// +listType=atomic
	// +k8s:optional
	Plan []PlannedChange `json:"plan,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceRelease requests that a host is given back to the Windows Machine Config Operator (WMCO) as it is: nothing is
// restarted and pods run on. WMCO takes it on when it runs, with a drain, as it updates its own hosts. Until then it is only
// watched. It is posted to the subresource release. With dryRun=All the answer lists what would change.
type WindowsInstanceRelease struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What must hold.
	// +optional
	Spec WindowsInstanceReleaseSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status WindowsInstanceReleaseStatus `json:"status,omitempty"`
}

// WindowsInstanceReleaseSpec has the preconditions of the action.
type WindowsInstanceReleaseSpec struct {
	// Preconditions that the instance must meet for the action to be accepted. Empty: none.
	// +optional
	Preconditions *metav1.Preconditions `json:"preconditions,omitempty"`
}

// WindowsInstanceReleaseStatus is the answer to a release.
type WindowsInstanceReleaseStatus struct {
	ActionStatus `json:",inline"`
	// With dryRun=All: what the release changes on the host and on its Node.
	// +optional
	// +listType=atomic
	// +k8s:optional
	Plan []PlannedChange `json:"plan,omitempty"`
}

// ChangeImpact is what a change costs the users of a host.
// +enum
// +k8s:enum
type ChangeImpact string

const (
	// ImpactNone means that no workload is affected.
	ImpactNone ChangeImpact = "None"
	// ImpactRestart means that a service is restarted.
	ImpactRestart ChangeImpact = "Restart"
	// ImpactDrain means that the node is drained first.
	ImpactDrain ChangeImpact = "Drain"
	// ImpactReboot means that the node is drained and the host restarted.
	ImpactReboot ChangeImpact = "Reboot"
)

// PlannedChange is one difference between a host and its desired configuration.
type PlannedChange struct {
	// What kind of thing differs, for example File, Service, Variable.
	Kind string `json:"kind"`
	// Which one, for example a path or the name of a service.
	Name string `json:"name"`
	// What would be done to it: Create, Update or Delete.
	Action string `json:"action"`
	// What that costs: None, Restart, Drain or Reboot.
	// +k8s:required
	Impact ChangeImpact `json:"impact"`
	// More for people, for example what it has and what it would get.
	// +optional
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceCancel requests the end of the running operation. It is posted to
// the subresource cancel.
type WindowsInstanceCancel struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to cancel.
	// +optional
	Spec WindowsInstanceCancelSpec `json:"spec,omitempty"`
	// The answer.
	// +optional
	Status ActionStatus `json:"status,omitempty"`
}

// WindowsInstanceCancelSpec names the operation to cancel.
type WindowsInstanceCancelSpec struct {
	// ID of the operation, as in status.operation.id of the instance. Required, so
	// that no user ends an operation that they do not know of.
	// +k8s:required
	// +k8s:maxLength=64
	OperationID string `json:"operationID"`
}
