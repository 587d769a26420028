// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperationType is what an operation does.
type OperationType string

// OperationCause is why the controller recorded an operation.
type OperationCause string

// OperationPhase is how far an operation has come.
type OperationPhase string

// OperationRunning is the phase of an operation that runs.
const OperationRunning OperationPhase = "Running"

// OperationOrigin is who requested an operation.
type OperationOrigin string

// OperationStepState is how far a step of an operation has come.
type OperationStepState string

// Operation is an action on a host: what was requested, by whom, and how far it has come.
// The controller runs it, and continues where it was when it is restarted.
type Operation struct {
	ID                string
	Type              OperationType
	Phase             OperationPhase
	RequestedBy       string
	Origin            OperationOrigin
	Cause             OperationCause
	RequestedAt       metav1.Time
	StartedAt         *metav1.Time
	FinishedAt        *metav1.Time
	Message           string
	Progress          *OperationProgress
	Steps             []OperationStep
	BlockedBy         []BlockedPod
	Drain             *DrainOptions
	Reboot            *RebootOptions
	Node              *OperationNode
	JoinsAs           string
	BootID            string
	Revision          string
	PoolRevision      string
	Impact            ChangeImpact
	AdmittedImpact    ChangeImpact
	HostChanged       bool
	HostReleased      bool
	ReleaseBegun      bool
	JoinsAgain        bool
	HostUntouched     bool
	CancelRequestedBy string
	CancelRequestedAt *metav1.Time
}

// OperationStep is a part of an operation.
type OperationStep struct {
	Name       string
	State      OperationStepState
	StartedAt  *metav1.Time
	FinishedAt *metav1.Time
	Message    string
}

// OperationProgress counts what is done.
type OperationProgress struct {
	Done  int32
	Total int32
	Unit  string
}

// BlockedPod is a pod that cannot be evicted at the moment.
type BlockedPod struct {
	Namespace string
	Name      string
	Budget    string
	Message   string
}

// OperationNode is a Node that an operation works on.
type OperationNode struct {
	Name             string
	UID              types.UID
	WasUnschedulable bool
}

// DrainOptions say how pods leave a Node. They are those of kubectl drain.
type DrainOptions struct {
	GracePeriodSeconds              *int64
	TimeoutSeconds                  *int64
	IgnoreDaemonSets                *bool
	DeleteEmptyDirData              bool
	Force                           bool
	DisableEviction                 bool
	PodSelector                     string
	SkipWaitForDeleteTimeoutSeconds *int32
}

// RebootMode is how a host is restarted.
type RebootMode string

// The values are documented in v1alpha1.
const (
	RebootGraceful RebootMode = "Graceful"
	RebootForce    RebootMode = "Force"
)

// RebootOptions say how a host is restarted.
type RebootOptions struct {
	Mode           RebootMode
	InstallUpdates WindowsUpdatesInstall
	TimeoutSeconds *int64
}
