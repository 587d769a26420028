// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ActionStatus is the answer to an action.
type ActionStatus struct {
	Operation *Operation
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceDrain requests that the Node of a host is cordoned and its pods are
// evicted. It is posted to the subresource drain.
type WindowsInstanceDrain struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceDrainSpec
	Status ActionStatus
}

// WindowsInstanceDrainSpec describes how to drain.
type WindowsInstanceDrainSpec struct {
	Preconditions *metav1.Preconditions

	DrainOptions
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceUncordon requests that the Node of a host becomes schedulable again.
// It is posted to the subresource uncordon.
type WindowsInstanceUncordon struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceUncordonSpec
	Status ActionStatus
}

// WindowsInstanceUncordonSpec has the preconditions of the action.
type WindowsInstanceUncordonSpec struct {
	Preconditions *metav1.Preconditions
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceReboot requests a restart of a host. It is posted to the subresource reboot.
type WindowsInstanceReboot struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceRebootSpec
	Status ActionStatus
}

// WindowsInstanceRebootSpec describes how to restart a host.
type WindowsInstanceRebootSpec struct {
	Preconditions *metav1.Preconditions

	RebootOptions
	Drain *DrainOptions
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceReconfigure requests that a host is brought to its desired
// configuration now. It is posted to the subresource reconfigure. With dryRun=All the answer
// lists what would change.
type WindowsInstanceReconfigure struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceReconfigureSpec
	Status WindowsInstanceReconfigureStatus
}

// WindowsInstanceReconfigureSpec has the preconditions of the action.
type WindowsInstanceReconfigureSpec struct {
	Preconditions *metav1.Preconditions
}

// WindowsInstanceReconfigureStatus is the answer to a reconfigure.
type WindowsInstanceReconfigureStatus struct {
	ActionStatus
	Plan []PlannedChange
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceAdopt requests that a host of another operator is taken over as it
// is. It is posted to the subresource adopt. With dryRun=All the answer
// lists what would change.
type WindowsInstanceAdopt struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceAdoptSpec
	Status WindowsInstanceAdoptStatus
}

// WindowsInstanceAdoptSpec has the preconditions of the action.
type WindowsInstanceAdoptSpec struct {
	Preconditions *metav1.Preconditions
}

// WindowsInstanceAdoptStatus is the answer to an adopt.
type WindowsInstanceAdoptStatus struct {
	ActionStatus
	Plan []PlannedChange
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceRelease requests that a host is given back to another operator as it
// is. It is posted to the subresource release. With dryRun=All the answer
// lists what would change.
type WindowsInstanceRelease struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceReleaseSpec
	Status WindowsInstanceReleaseStatus
}

// WindowsInstanceReleaseSpec has the preconditions of the action.
type WindowsInstanceReleaseSpec struct {
	Preconditions *metav1.Preconditions
}

// WindowsInstanceReleaseStatus is the answer to a release.
type WindowsInstanceReleaseStatus struct {
	ActionStatus
	Plan []PlannedChange
}

// ChangeImpact is what a change costs the users of a host.
type ChangeImpact string

// PlannedChange is one difference between a host and its desired configuration.
type PlannedChange struct {
	Kind    string
	Name    string
	Action  string
	Impact  ChangeImpact
	Message string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceCancel requests the end of the running operation. It is posted to
// the subresource cancel.
type WindowsInstanceCancel struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   WindowsInstanceCancelSpec
	Status ActionStatus
}

// WindowsInstanceCancelSpec names the operation to cancel.
type WindowsInstanceCancelSpec struct {
	OperationID string
}
