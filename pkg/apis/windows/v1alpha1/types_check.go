// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceCheck requests that the way to a host is tried now, layer by layer,
// over a connection of its own. Nothing is changed on the host. It is posted to the
// subresource check.
type WindowsInstanceCheck struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is that of the instance, or empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The answer.
	// +optional
	Status WindowsInstanceCheckStatus `json:"status,omitempty"`
}

// WindowsInstanceCheckStatus is the answer to a check.
type WindowsInstanceCheckStatus struct {
	// Whether no layer failed and no finding prevents the host from being a node. It is
	// true also while our agent is not on the host yet; then the layer Agent and those after it
	// are Skipped.
	Passed bool `json:"passed"`
	// The layers, in the order in which they were tried: Resolve, Bastion (where there is one), Connect,
	// Handshake, HostKey, Authenticate, Session, Agent, Preflight, APIServer.
	// +optional
	// +listType=map
	// +listMapKey=name
	Layers []CheckLayer `json:"layers,omitempty"`
	// What preflight found, errors first.
	// +optional
	// +listType=atomic
	Findings []CheckFinding `json:"findings,omitempty"`
}

// CheckResult is the result of a layer.
// +enum
type CheckResult string

const (
	// CheckPassed means that the layer works.
	CheckPassed CheckResult = "Passed"
	// CheckFailed means that it does not; reason and message say more.
	CheckFailed CheckResult = "Failed"
	// CheckSkipped means that it was not tried; the message explains why.
	CheckSkipped CheckResult = "Skipped"
)

// CheckLayer is one layer of the way to a host.
type CheckLayer struct {
	// Names the layer.
	Name string `json:"name"`
	// The result: Passed, Failed or Skipped.
	Result CheckResult `json:"result"`
	// How long it took.
	// +optional
	Duration metav1.Duration `json:"duration,omitempty"`
	// Why it failed, as in the conditions of a WindowsInstance.
	// +optional
	Reason string `json:"reason,omitempty"`
	// What was found out, or what to do, for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// FindingSeverity says whether a finding keeps the host from being a node.
// +enum
type FindingSeverity string

const (
	// FindingError prevents the host from being a node.
	FindingError FindingSeverity = "Error"
	// FindingWarning is worth knowing.
	FindingWarning FindingSeverity = "Warning"
)

// CheckFinding is something that preflight found on a host.
type CheckFinding struct {
	// Names the kind of finding.
	Code string `json:"code"`
	// Error when it prevents the host from being a node, Warning when it is worth knowing.
	Severity FindingSeverity `json:"severity"`
	// What it is and what to do, for people.
	Message string `json:"message"`
}
