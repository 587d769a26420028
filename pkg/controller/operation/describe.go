// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// describeSuccess says how an operation that went well ended.
func (e *execution) describeSuccess() string {
	op := e.operation()
	switch op.Type {
	case v1alpha1.OperationDrain:
		total := int32(0)
		if op.Progress != nil {
			total = op.Progress.Total
		}
		return fmt.Sprintf("Node %s is cordoned, and its pods have left: %d.", op.Node.Name, total)
	case v1alpha1.OperationReboot:
		message := "The host was restarted."
		for _, name := range []string{v1alpha1.StepNodeReady, v1alpha1.StepUncordon} {
			if step := op.FindStep(name); step != nil && step.State == v1alpha1.StepSucceeded {
				message += " " + step.Message
			}
		}
		return message
	}
	return op.Steps[len(op.Steps)-1].Message
}

// describeEvicted says which pods are gone although the operation was broken off.
func describeEvicted(op *v1alpha1.Operation) string {
	if p := op.Progress; p != nil && p.Done > 0 {
		return fmt.Sprintf(" %d of %d pods had left and do not come back by themselves.", p.Done, p.Total)
	}
	if step := op.FindStep(v1alpha1.StepDrain); step != nil && step.State == v1alpha1.StepSucceeded {
		return fmt.Sprintf(" The drain was over. %s They do not come back by themselves.", step.Message)
	}
	return ""
}

// describeStep says what a step does, for people.
func describeStep(name string, op *v1alpha1.Operation) string {
	node := "the host"
	if op.Node != nil {
		node = "Node " + op.Node.Name
	}
	return map[string]string{
		v1alpha1.StepConnect:       "Connecting to the host.",
		v1alpha1.StepCheckPending:  "Looking whether Windows waits for a restart.",
		v1alpha1.StepCordon:        "Cordoning " + node + ".",
		v1alpha1.StepEvict:         "Evicting the pods of " + node + ".",
		v1alpha1.StepDrain:         "Evicting the pods of " + node + ".",
		v1alpha1.StepRestart:       "Restarting the host.",
		v1alpha1.StepBoot:          "Waiting until the host is back.",
		v1alpha1.StepServices:      "Waiting for the services of the host.",
		v1alpha1.StepMetadataRoute: "Putting the routes to the metadata service back.",
		v1alpha1.StepNodeReady:     "Waiting until " + node + " is ready.",
		v1alpha1.StepUncordon:      "Uncordoning " + node + ".",
		v1alpha1.StepFacts:         "Looking at the host.",
		v1alpha1.StepPreflight:     "Judging whether the host is fit to be a node.",
		v1alpha1.StepAgent:         "Putting our agent on the host.",
		v1alpha1.StepPlan:          "Finding out what is to be done to the host.",
		v1alpha1.StepTransfer:      "Sending files to the host.",
		v1alpha1.StepApply:         "Configuring the host.",
		v1alpha1.StepFinish:        "Configuring the host after its restart.",
		v1alpha1.StepJoin:          "Waiting until the host has become a Node.",
		v1alpha1.StepNetwork:       "Configuring what needs the Node.",
		v1alpha1.StepVerify:        "Verifying the host.",
		v1alpha1.StepCleanup:       "Taking everything of ours off the host.",
		v1alpha1.StepDeleteNode:    "Deleting " + node + ".",
		v1alpha1.StepForget:        "Closing the connections to the host.",
	}[name]
}
