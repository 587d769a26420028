// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Which Node a host is that was never logged in to, its instance only claims, whatever its status names.
func TestNothingIsDoneForWhoIsNotLetIn(t *testing.T) {
	t.Parallel()
	for _, op := range []v1alpha1.Operation{
		{Type: v1alpha1.OperationDrain}, {Type: v1alpha1.OperationUncordon}, {Type: v1alpha1.OperationReconfigure}, rebootOperation(v1alpha1.RebootForce),
	} {
		inBubble(t, string(op.Type), func(t *testing.T) {
			f := newFixture(t, newInstance(op, func(i *v1alpha1.WindowsInstance) { i.Status.Version = "" }))
			done := f.finish()
			if done.Phase != v1alpha1.OperationFailed || !strings.Contains(done.Message, "has not logged in to the host") || done.Node != nil {
				t.Errorf("it is %s, with Node %v: %s", done.Phase, done.Node, done.Message)
			}
			if f.node().Spec.Unschedulable || len(f.host.asked) > 0 {
				t.Errorf("the Node is cordoned: %v; the host was asked %v", f.node().Spec.Unschedulable, f.host.asked)
			}
		})
	}
}

// A host that is configured for the first time is not touched if another instance has it, by what is
// known then. It is asked when it is recorded that the host is about to be changed.
func TestFirstChangeIsForOneInstance(t *testing.T) {
	t.Parallel()
	changed := func(i *v1alpha1.WindowsInstance) {
		i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, HostChanged: true}}
	}
	for _, tt := range []struct {
		name   string
		impact config.Impact
		change change
		// wantAt: the steps in which it was asked.
		wantAt []string
		want   v1alpha1.OperationPhase
	}{
		{"its Node first", config.ImpactDrain, func(*v1alpha1.WindowsInstance) {}, []string{v1alpha1.StepCordon}, v1alpha1.OperationFailed},
		{"the host", config.ImpactNone, func(*v1alpha1.WindowsInstance) {}, []string{v1alpha1.StepApply}, v1alpha1.OperationFailed},
		{"it was changed for this one before", config.ImpactNone, changed, nil, v1alpha1.OperationSucceeded},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), tt.change))
			f.configure()
			f.host.impact = tt.impact
			var at []string
			f.represented = func(_ context.Context, _ *v1alpha1.WindowsInstance) (string, error) {
				for _, step := range f.get().Status.Operation.Steps { //nolint:contextcheck // the fixture has its own
					if step.State == v1alpha1.StepRunning {
						at = append(at, step.Name)
					}
				}
				return "Another one does.", nil
			}
			op := f.finish()
			if op.Phase != tt.want || !slices.Equal(at, tt.wantAt) {
				t.Errorf("it is %s, asked at %v: %s", op.Phase, at, op.Message)
			}
			if tt.want == v1alpha1.OperationFailed && (!strings.Contains(op.Message, "Another one does.") || len(f.host.applies) > 0 || f.node().Spec.Unschedulable) {
				t.Errorf("the host was changed: %v, cordoned: %v: %s", f.host.applies, f.node().Spec.Unschedulable, op.Message)
			}
		})
	}
}

// Without somebody to ask, two instances would configure one host.
func TestGuardsAreRequired(t *testing.T) {
	yes := func(context.Context, *v1alpha1.WindowsInstance) (string, error) { return "", nil }
	for name, o := range map[string]Options{
		"none": {}, "represented": {Superseded: yes, Labels: keepLabels}, "superseded": {Represented: yes, Labels: keepLabels}, "labels": {Superseded: yes, Represented: yes},
	} {
		if err := SetupWithManager(nil, o); err == nil {
			t.Errorf("%s: the controller was added", name)
		}
	}
}
