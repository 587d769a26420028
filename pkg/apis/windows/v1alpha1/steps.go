// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "slices"

// Names of the steps of operations, as status.operation.steps has them. They are part of the
// API: the controllers decide by them, an operation that is interrupted is continued by them
// in another release, and scripts wait for them. Which operation has which steps, and
// in which order, depends on the release.
const (
	// StepConnect reaches the host and logs in to it.
	StepConnect string = "Connect"
	// StepCheckPending finds out whether Windows waits for a restart.
	StepCheckPending string = "CheckPending"
	// StepWaitForSlot waits until the host may be disrupted by its new configuration or by updates of Windows, or removed.
	// Neither the host nor its Node is touched meanwhile.
	StepWaitForSlot string = "WaitForSlot"
	// StepDownloadUpdates has the host download updates of Windows, while its pods run.
	StepDownloadUpdates string = "DownloadUpdates"
	// StepCordon makes the Node unschedulable.
	StepCordon string = "Cordon"
	// StepEvict evicts the pods of the Node, which is all that a drain is for.
	StepEvict string = "Evict"
	// StepDrain evicts the pods of the Node, so that the operation can continue.
	StepDrain string = "Drain"
	// StepInstallUpdates has the host install updates of Windows.
	StepInstallUpdates string = "InstallUpdates"
	// StepRestart restarts Windows.
	StepRestart string = "Restart"
	// StepBoot waits until the host answers with another boot than before.
	StepBoot string = "Boot"
	// StepRestartServices restarts the services of the node.
	StepRestartServices string = "RestartServices"
	// StepServices waits until the services of the host run.
	StepServices string = "Services"
	// StepMetadataRoute restores the routes to the metadata service of a cloud, which a
	// restart may lose.
	StepMetadataRoute string = "MetadataRoute"
	// StepNodeReady waits until the Node is ready.
	StepNodeReady string = "NodeReady"
	// StepUncordon makes the Node schedulable again, unless it was unschedulable before.
	StepUncordon string = "Uncordon"
	// StepVerifyUpdates finds out which updates of Windows are installed after the restart.
	StepVerifyUpdates string = "VerifyUpdates"
	// StepFacts inspects the host.
	StepFacts string = "Facts"
	// StepPreflight decides whether the host is fit to be a node.
	StepPreflight string = "Preflight"
	// StepAgent installs our agent on the host.
	StepAgent string = "Agent"
	// StepPlan finds out what has to change on the host, and at what cost for its workload.
	StepPlan string = "Plan"
	// StepCompare finds out whether the host can be adopted: what it is known by to the cluster has to be what it would
	// be configured with.
	StepCompare string = "Compare"
	// StepAdopt removes what manages the host for another operator, and records the rest as ours, as it is.
	StepAdopt string = "Adopt"
	// StepRelease has the agent give the host up: what is on it stays as it is, and is nobody's any more.
	StepRelease string = "Release"
	// StepReleaseNode takes from the Node what says that it is ours, and gives it what the Windows Machine Config Operator
	// looks for on its Nodes.
	StepReleaseNode string = "ReleaseNode"
	// StepTransfer sends the files to the host.
	StepTransfer string = "Transfer"
	// StepApply changes the host to the desired configuration. Whether it came as far as a
	// first change is in status.operation.hostChanged.
	StepApply string = "Apply"
	// StepFinish changes what had to wait for the restart.
	StepFinish string = "Finish"
	// StepJoin waits until the host has become a Node.
	StepJoin string = "Join"
	// StepNetwork configures what needs the Node.
	StepNetwork string = "Network"
	// StepVerify checks that the host answers over a new connection, and is as it was configured.
	StepVerify string = "Verify"
	// StepCleanup removes everything from the host that was installed on it.
	StepCleanup string = "Cleanup"
	// StepDeleteNode deletes the Node.
	StepDeleteNode string = "DeleteNode"
	// StepForget closes the connections to the host.
	StepForget string = "Forget"
)

// InstallsUpdates says whether updates of Windows are installed before the restart.
func (o *RebootOptions) InstallsUpdates() bool {
	return o != nil && o.InstallUpdates != "" && o.InstallUpdates != InstallNone
}

// AwaitsReturn says whether a step of a reboot waits for a host that was restarted: it fails only because that takes longer than it may.
func AwaitsReturn(step string) bool {
	return step == StepBoot || step == StepServices || step == StepNodeReady
}

// Ended says whether the step is over, whatever became of it.
func (s *OperationStep) Ended() bool {
	return s.State != StepPending && s.State != StepRunning
}

// FindStep returns the step of that name, nil if the operation has none. It is that of the
// operation, and no copy.
func (o *Operation) FindStep(name string) *OperationStep {
	for i := range o.Steps {
		if o.Steps[i].Name == name {
			return &o.Steps[i]
		}
	}
	return nil
}

// Runs returns the step that runs, and which one of all it is, counted from one. Nil: none does.
func (o *Operation) Runs() (step *OperationStep, number int) {
	for i := range o.Steps {
		if o.Steps[i].State == StepRunning {
			return &o.Steps[i], i + 1
		}
	}
	return nil, 0
}

// At says whether the step of that name runs.
func (o *Operation) At(name string) bool {
	step := o.FindStep(name)
	return step != nil && step.State == StepRunning
}

// HostUnreached says whether the operation failed because the host could not be reached or
// logged in to, before anything was done to it.
func (o *Operation) HostUnreached() bool {
	connect := o.FindStep(StepConnect)
	return o.Phase == OperationFailed && o.Untouched() && (connect == nil || connect.State == StepFailed)
}

// Untouched says whether the operation has done nothing to the host nor to its Node: it has not
// begun, or no further than to connect, or to wait until a host may be removed.
func (o *Operation) Untouched() bool {
	if len(o.Steps) == 0 {
		return o.HostUntouched || o.StartedAt == nil
	}
	return !slices.ContainsFunc(o.Steps, func(s OperationStep) bool {
		return s.Name != StepConnect && s.Name != StepWaitForSlot && s.State != StepPending && s.State != StepSkipped
	})
}
