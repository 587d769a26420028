// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceCheck requests that the way to a host is tried now, layer by layer,
// over a connection of its own. Nothing is changed on the host. It is posted to the
// subresource check.
type WindowsInstanceCheck struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Status WindowsInstanceCheckStatus
}

// WindowsInstanceCheckStatus is the answer to a check.
type WindowsInstanceCheckStatus struct {
	Passed   bool
	Layers   []CheckLayer
	Findings []CheckFinding
}

// CheckResult is the result of a layer.
type CheckResult string

// CheckSkipped is the result of a layer that was not tried.
const CheckSkipped CheckResult = "Skipped"

// CheckLayer is one layer of the way to a host.
type CheckLayer struct {
	Name     string
	Result   CheckResult
	Duration metav1.Duration
	Reason   string
	Message  string
}

// FindingSeverity says whether a finding keeps the host from being a node.
type FindingSeverity string

// CheckFinding is something that preflight found on a host.
type CheckFinding struct {
	Code     string
	Severity FindingSeverity
	Message  string
}
