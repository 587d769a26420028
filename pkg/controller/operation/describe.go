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
		for _, name := range []string{stepNodeReady, stepUncordon} {
			if step := findStep(op, name); step != nil && step.State == windowsv1alpha1.StepSucceeded {
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
	if step := findStep(op, stepDrain); step != nil && step.State == windowsv1alpha1.StepSucceeded {
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
		stepConnect:       "Connecting to the host.",
		stepCheckPending:  "Looking whether Windows waits for a restart.",
		stepCordon:        "Cordoning " + node + ".",
		stepEvict:         "Evicting the pods of " + node + ".",
		stepDrain:         "Evicting the pods of " + node + ".",
		stepRestart:       "Restarting the host.",
		stepBoot:          "Waiting until the host is back.",
		stepServices:      "Waiting for the services of the host.",
		stepMetadataRoute: "Putting the routes to the metadata service back.",
		stepNodeReady:     "Waiting until " + node + " is ready.",
		stepUncordon:      "Uncordoning " + node + ".",
		stepFacts:         "Looking at the host.",
		stepPreflight:     "Judging whether the host is fit to be a node.",
		stepAgent:         "Putting our agent on the host.",
		stepPlan:          "Finding out what is to be done to the host.",
		stepTransfer:      "Sending files to the host.",
		stepApply:         "Configuring the host.",
		stepFinish:        "Configuring the host after its restart.",
		stepJoin:          "Waiting until the host has become a Node.",
		stepNetwork:       "Configuring what needs the Node.",
		stepVerify:        "Verifying the host.",
		stepCleanup:       "Taking everything of ours off the host.",
		stepDeleteNode:    "Deleting " + node + ".",
		stepForget:        "Closing the connections to the host.",
	}[name]
}
