// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"fmt"

	windowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// describeSuccess says how an operation that went well ended.
func (e *execution) describeSuccess() string {
	op := e.operation()
	switch op.Type {
	case windowsv1alpha1.OperationDrain:
		total := int32(0)
		if op.Progress != nil {
			total = op.Progress.Total
		}
		return fmt.Sprintf("Node %s is cordoned, and its pods have left: %d.", op.Node.Name, total)
	case windowsv1alpha1.OperationReboot:
		message := "The host was restarted."
		for _, name := range []string{windowsv1alpha1.StepNodeReady, windowsv1alpha1.StepUncordon} {
			if step := op.FindStep(name); step != nil && step.State == windowsv1alpha1.StepSucceeded {
				message += " " + step.Message
			}
		}
		return message
	}
	return op.Steps[len(op.Steps)-1].Message
}

// describeEvicted says which pods are gone although the operation was broken off.
func describeEvicted(op *windowsv1alpha1.Operation) string {
	if p := op.Progress; p != nil && p.Done > 0 {
		return fmt.Sprintf(" %d of %d pods had left and do not come back by themselves.", p.Done, p.Total)
	}
	if step := op.FindStep(windowsv1alpha1.StepDrain); step != nil && step.State == windowsv1alpha1.StepSucceeded {
		return fmt.Sprintf(" The drain was over. %s They do not come back by themselves.", step.Message)
	}
	return ""
}

// describeStep says what a step does, for people.
func describeStep(name string, op *windowsv1alpha1.Operation) string {
	node := "the host"
	if op.Node != nil {
		node = "Node " + op.Node.Name
	}
	return map[string]string{
		windowsv1alpha1.StepConnect:       "Connecting to the host.",
		windowsv1alpha1.StepCheckPending:  "Looking whether Windows waits for a restart.",
		windowsv1alpha1.StepCordon:        "Cordoning " + node + ".",
		windowsv1alpha1.StepEvict:         "Evicting the pods of " + node + ".",
		windowsv1alpha1.StepDrain:         "Evicting the pods of " + node + ".",
		windowsv1alpha1.StepRestart:       "Restarting the host.",
		windowsv1alpha1.StepBoot:          "Waiting until the host is back.",
		windowsv1alpha1.StepServices:      "Waiting for the services of the host.",
		windowsv1alpha1.StepMetadataRoute: "Putting the routes to the metadata service back.",
		windowsv1alpha1.StepNodeReady:     "Waiting until " + node + " is ready.",
		windowsv1alpha1.StepUncordon:      "Uncordoning " + node + ".",
		windowsv1alpha1.StepFacts:         "Looking at the host.",
		windowsv1alpha1.StepPreflight:     "Judging whether the host is fit to be a node.",
		windowsv1alpha1.StepAgent:         "Putting our agent on the host.",
		windowsv1alpha1.StepPlan:          "Finding out what is to be done to the host.",
		windowsv1alpha1.StepTransfer:      "Sending files to the host.",
		windowsv1alpha1.StepApply:         "Configuring the host.",
		windowsv1alpha1.StepFinish:        "Configuring the host after its restart.",
		windowsv1alpha1.StepJoin:          "Waiting until the host has become a Node.",
		windowsv1alpha1.StepNetwork:       "Configuring what needs the Node.",
		windowsv1alpha1.StepVerify:        "Verifying the host.",
		windowsv1alpha1.StepCleanup:       "Taking everything of ours off the host.",
		windowsv1alpha1.StepDeleteNode:    "Deleting " + node + ".",
		windowsv1alpha1.StepForget:        "Closing the connections to the host.",
	}[name]
}
