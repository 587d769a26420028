// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// step is a step of an operation.
type step struct {
	// run runs the step. It may be called again after an interruption. An error of its context
	// it returns as it is; every other error ends the operation.
	run func(e *execution, ctx context.Context) (result, error)
	// description says what it does, for people, with nodePlaceholder for what it does it to.
	description string
}

// nodePlaceholder is in the place of the name of the Node in the description of a step.
const nodePlaceholder = "<node>"

// describe says what the step does.
func (s step) describe(node *v1alpha1.OperationNode) string {
	target := "the host"
	if node != nil {
		target = "Node " + node.Name
	}
	return strings.ReplaceAll(s.description, nodePlaceholder, target)
}

// result is how a step ended that did not fail.
type result struct {
	// message is for people.
	message string
	// skipped: there was nothing to do.
	skipped bool
	// untold: nothing was done that people are told of by an event.
	untold bool
	// enough: the operation has succeeded without the steps that follow.
	enough bool
	// refusal is why the operation has failed with this step, which did what it should. Empty: it
	// has not.
	refusal string
	// skips has which of the steps that follow are not needed, and why.
	skips map[string]string
	// node is what the operation works on from now on. It is recorded together with the end
	// of the step, so that the step is done again if that is interrupted. Nil: as before.
	node *v1alpha1.OperationNode
	// joined: the host has joined the cluster again, which is recorded in the same way.
	joined bool
	// restarted: the host answers from another boot, which is recorded in the same way.
	restarted bool
	// released: the host is not ours any more, which is recorded in the same way.
	released bool
	// again is an earlier step from which on the operation is run again, this one
	// included. Empty: it goes on.
	again string
}

// steps are the steps of all operations, by name.
var steps = map[string]step{
	v1alpha1.StepConnect:         {(*execution).connect, "Connecting to the host."},
	v1alpha1.StepCheckPending:    {(*execution).checkPending, "Checking whether Windows waits for a restart."},
	v1alpha1.StepWaitForSlot:     {(*execution).waitForSlot, "Waiting until <node> may be disrupted."},
	v1alpha1.StepDownloadUpdates: {(*execution).downloadUpdates, "Downloading updates of Windows."},
	v1alpha1.StepInstallUpdates:  {(*execution).installUpdates, "Installing updates of Windows."},
	v1alpha1.StepVerifyUpdates:   {(*execution).verifyUpdates, "Verifying the updates of Windows."},
	v1alpha1.StepCordon:          {(*execution).cordon, "Cordoning <node>."},
	v1alpha1.StepEvict:           {(*execution).evict, "Evicting the pods of <node>."},
	v1alpha1.StepDrain:           {(*execution).evict, "Evicting the pods of <node>."},
	v1alpha1.StepRestart:         {(*execution).restart, "Restarting the host."},
	v1alpha1.StepBoot:            {(*execution).boot, "Waiting until the host is back."},
	v1alpha1.StepRestartServices: {(*execution).restartServices, "Restarting the services of the node."},
	v1alpha1.StepServices:        {(*execution).services, "Waiting for the services of the host."},
	v1alpha1.StepMetadataRoute:   {(*execution).metadataRoute, "Restoring the routes to the metadata service."},
	v1alpha1.StepNodeReady:       {(*execution).nodeReady, "Waiting until <node> is ready."},
	v1alpha1.StepUncordon:        {(*execution).uncordon, "Uncordoning <node>."},
	v1alpha1.StepFacts:           {(*execution).inspect, "Inspecting the host."},
	v1alpha1.StepPreflight:       {(*execution).preflight, "Judging whether the host is fit to be a node."},
	v1alpha1.StepAgent:           {(*execution).agent, "Putting our agent on the host."},
	v1alpha1.StepPlan:            {(*execution).planConfiguration, "Planning the changes of the host."},
	v1alpha1.StepCompare:         {(*execution).compare, "Comparing the host with its desired configuration."},
	v1alpha1.StepAdopt:           {(*execution).adopt, "Taking the host over as it is."},
	v1alpha1.StepRelease:         {(*execution).release, "Releasing the host as it is."},
	v1alpha1.StepReleaseNode:     {(*execution).releaseNode, "Releasing <node>."},
	v1alpha1.StepTransfer:        {(*execution).transfer, "Sending files to the host."},
	v1alpha1.StepApply:           {(*execution).apply, "Configuring the host."},
	v1alpha1.StepFinish:          {(*execution).finish, "Configuring the host after its restart."},
	v1alpha1.StepJoin:            {(*execution).join, "Waiting until the host has become a Node."},
	v1alpha1.StepNetwork:         {(*execution).network, "Configuring what needs the Node."},
	v1alpha1.StepVerify:          {(*execution).verify, "Verifying the host."},
	v1alpha1.StepCleanup:         {(*execution).cleanup, "Removing everything of ours from the host."},
	v1alpha1.StepDeleteNode:      {(*execution).deleteNode, "Deleting <node>."},
	v1alpha1.StepForget:          {(*execution).forget, "Closing the connections to the host."},
}

// plan returns the names of the steps of an operation, nil for one that nobody knows.
// Hosts are configured if it is known with what.
func plan(op *v1alpha1.Operation, configured bool) []string {
	switch op.Type {
	case v1alpha1.OperationDrain:
		return []string{v1alpha1.StepCordon, v1alpha1.StepEvict}
	case v1alpha1.OperationUncordon:
		return []string{v1alpha1.StepUncordon}
	case v1alpha1.OperationReboot:
		if op.Reboot.InstallsUpdates() {
			return planUpdates()
		}
		return planReboot(rebootMode(op))
	case v1alpha1.OperationReconfigure:
		return planReconfigure(configured)
	case v1alpha1.OperationAdopt:
		return []string{v1alpha1.StepConnect, v1alpha1.StepAgent, v1alpha1.StepCompare, v1alpha1.StepAdopt}
	case v1alpha1.OperationRelease:
		return []string{v1alpha1.StepConnect, v1alpha1.StepAgent, v1alpha1.StepRelease, v1alpha1.StepReleaseNode}
	case v1alpha1.OperationRestartServices:
		return []string{v1alpha1.StepConnect, v1alpha1.StepRestartServices, v1alpha1.StepServices, v1alpha1.StepMetadataRoute, v1alpha1.StepNodeReady}
	case v1alpha1.OperationRemove:
		return []string{
			v1alpha1.StepConnect, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepCleanup,
			v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepDeleteNode, v1alpha1.StepForget,
		}
	}
	return nil
}

func planReboot(mode v1alpha1.RebootMode) []string {
	before, after := []string{v1alpha1.StepConnect}, []string{v1alpha1.StepUncordon}
	switch mode {
	case v1alpha1.RebootGraceful:
		before = append(before, v1alpha1.StepCordon, v1alpha1.StepDrain)
	case v1alpha1.RebootIfPending:
		before = append(before, v1alpha1.StepCheckPending, v1alpha1.StepCordon, v1alpha1.StepDrain)
	case v1alpha1.RebootForce: // it lifts the cordon of a reboot that failed before it
	default:
		return nil
	}
	return slices.Concat(before, []string{
		v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepServices,
		v1alpha1.StepMetadataRoute, v1alpha1.StepNodeReady,
	}, after)
}

// planUpdates is a reboot with updates. What takes long and disturbs nobody is done before the drain, without a slot, and what
// only tells how it went after the Node takes pods again.
func planUpdates() []string {
	names := slices.Concat([]string{v1alpha1.StepConnect, v1alpha1.StepDownloadUpdates, v1alpha1.StepWaitForSlot}, planReboot(v1alpha1.RebootGraceful)[1:], []string{v1alpha1.StepVerifyUpdates})
	return slices.Insert(names, slices.Index(names, v1alpha1.StepRestart), v1alpha1.StepInstallUpdates)
}

func planReconfigure(configured bool) []string {
	names := []string{v1alpha1.StepConnect, v1alpha1.StepFacts, v1alpha1.StepPreflight, v1alpha1.StepAgent}
	if configured {
		names = append(names,
			v1alpha1.StepPlan, v1alpha1.StepTransfer, v1alpha1.StepWaitForSlot, v1alpha1.StepCordon, v1alpha1.StepDrain,
			v1alpha1.StepApply, v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepFinish,
			v1alpha1.StepJoin, v1alpha1.StepNetwork, v1alpha1.StepNodeReady, v1alpha1.StepUncordon)
	}
	return append(names, v1alpha1.StepVerify)
}

func rebootMode(op *v1alpha1.Operation) v1alpha1.RebootMode {
	if op.Reboot == nil || op.Reboot.Mode == "" {
		return v1alpha1.RebootGraceful
	}
	return op.Reboot.Mode
}

// updateTimeout is how long a host gets to come back when nobody has said how long: Windows installs
// what it has pending while it restarts. Cumulative updates take longer than features.
const updateTimeout = time.Hour

// rebootTimeout is how long the host gets from its restart until its Node is ready. A configuration
// or removal, which has no such option, gives it that for each step, and so does a reboot that the controller wants.
func rebootTimeout(op *v1alpha1.Operation, step string) time.Duration {
	switch {
	case op.Reboot != nil && op.Reboot.TimeoutSeconds != nil:
		return time.Duration(*op.Reboot.TimeoutSeconds) * time.Second
	case (op.Type != v1alpha1.OperationReboot || op.ByController()) && (step == v1alpha1.StepRestart || step == v1alpha1.StepBoot):
		return updateTimeout
	}
	return v1alpha1.DefaultRebootTimeoutSeconds * time.Second
}

// newSteps are steps that have not begun.
func newSteps(names []string) []v1alpha1.OperationStep {
	steps := make([]v1alpha1.OperationStep, len(names))
	for i, name := range names {
		steps[i] = v1alpha1.OperationStep{Name: name, State: v1alpha1.StepPending}
	}
	return steps
}

// nextStep is the first step that has not ended, nil if all have.
func nextStep(op *v1alpha1.Operation) *v1alpha1.OperationStep {
	for i := range op.Steps {
		if !op.Steps[i].Ended() {
			return &op.Steps[i]
		}
	}
	return nil
}

// rewind has an operation go on at an earlier step than the one that runs. A Node that is
// cordoned or drained stays so.
func rewind(op *v1alpha1.Operation, to, from string) {
	within := false
	for i := range op.Steps {
		step := &op.Steps[i]
		if within = within || step.Name == to; !within {
			continue
		}
		kept := (step.Name == v1alpha1.StepCordon || step.Name == v1alpha1.StepDrain) && step.State == v1alpha1.StepSucceeded
		if !kept {
			*step = v1alpha1.OperationStep{Name: step.Name, State: v1alpha1.StepPending}
		}
		if step.Name == from {
			return
		}
	}
}

// reconsider has the steps after one that plans run, unless it says once more that they are not
// needed: those that an earlier plan has skipped.
func reconsider(op *v1alpha1.Operation, planned string) {
	after := false
	for i := range op.Steps {
		step := &op.Steps[i]
		if after && step.State == v1alpha1.StepSkipped && step.StartedAt == nil {
			*step = v1alpha1.OperationStep{Name: step.Name, State: v1alpha1.StepPending}
		}
		after = after || step.Name == planned
	}
}

// begin notes that a step runs. One that ran before keeps the time when it first did,
// which deadlines count from.
func begin(step *v1alpha1.OperationStep, now time.Time) {
	step.State = v1alpha1.StepRunning
	if step.StartedAt == nil {
		step.StartedAt = timestamp(now)
	}
}

// end notes how a step ended.
func end(step *v1alpha1.OperationStep, state v1alpha1.OperationStepState, message string, now time.Time) {
	step.State, step.Message = state, message
	if step.StartedAt != nil {
		step.FinishedAt = timestamp(now)
	}
}

// conclude ends an operation. The step that ran failed or was broken off, those after
// it were not reached.
func conclude(op *v1alpha1.Operation, phase v1alpha1.OperationPhase, message string, now time.Time) {
	for i := range op.Steps {
		switch step := &op.Steps[i]; step.State {
		case v1alpha1.StepRunning:
			state := v1alpha1.StepFailed
			if phase == v1alpha1.OperationCanceled {
				state = v1alpha1.StepCanceled
			}
			end(step, state, message, now)
		case v1alpha1.StepPending:
			note := "Not reached: the operation ended before this step."
			if phase == v1alpha1.OperationSucceeded {
				note = "Not needed."
			}
			end(step, v1alpha1.StepSkipped, note, now)
		}
	}
	op.Phase, op.Message = phase, message
	if op.Type != v1alpha1.OperationRemove || phase != v1alpha1.OperationFailed {
		// A removal that failed is tried again: what kept it from going on is still worth knowing.
		op.BlockedBy = nil
	}
	op.FinishedAt = timestamp(now)
}

// timestamp has whole seconds, as times in the API have.
func timestamp(now time.Time) *metav1.Time { return new(metav1.NewTime(now.Truncate(time.Second))) }
