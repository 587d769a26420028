// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// A host gets credentials to join only when it is no Node, or as long as the plan wants that.
func TestJoins(t *testing.T) {
	node := &v1alpha1.OperationNode{Name: testNode}
	for _, tt := range []struct {
		name string
		node *v1alpha1.OperationNode
		plan v1alpha1.OperationStepState
		join v1alpha1.OperationStep
		want bool
	}{
		{name: "no Node", plan: v1alpha1.StepPending, want: true},
		{name: "not planned", node: node, plan: v1alpha1.StepRunning, join: v1alpha1.OperationStep{State: v1alpha1.StepPending, Message: "It joins again."}},
		{name: "joins again", node: node, plan: v1alpha1.StepSucceeded, join: v1alpha1.OperationStep{State: v1alpha1.StepPending, Message: "It joins again."}, want: true},
		{name: "is joining again", node: node, plan: v1alpha1.StepSucceeded, join: v1alpha1.OperationStep{State: v1alpha1.StepRunning, Message: "It joins again."}, want: true},
		{name: "has joined again", node: node, plan: v1alpha1.StepSucceeded, join: v1alpha1.OperationStep{State: v1alpha1.StepSucceeded, Message: "It has."}},
		{name: "need not join", node: node, plan: v1alpha1.StepSucceeded, join: v1alpha1.OperationStep{State: v1alpha1.StepSkipped, Message: "It is a Node."}},
		{name: "planned by an earlier release", node: node, plan: v1alpha1.StepSucceeded, join: v1alpha1.OperationStep{State: v1alpha1.StepPending}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instance := newInstance(reconfigureOperation())
			tt.join.Name = v1alpha1.StepJoin
			instance.Status.Operation.Node = tt.node
			instance.Status.Operation.Steps = []v1alpha1.OperationStep{{Name: v1alpha1.StepPlan, State: tt.plan}, tt.join}
			if got := (&execution{instance: instance}).joins(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	drain := &execution{instance: newInstance(v1alpha1.Operation{Type: v1alpha1.OperationDrain, Node: node, Steps: newSteps([]string{v1alpha1.StepCordon})})}
	if drain.joins() {
		t.Error("a drain has the host join")
	}
}
