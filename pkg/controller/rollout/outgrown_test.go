// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestCostsMoreThanItSays: an update that was withdrawn because it turned out to cost more than the host had said is let begin by what it costs,
// whatever the host says again. A newer revision costs what the host says.
func TestCostsMoreThanItSays(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.Operation)
		want v1alpha1.ChangeImpact
	}{
		{"it was withdrawn", func(*v1alpha1.Operation) {}, v1alpha1.ImpactDrain},
		{"with another revision", func(op *v1alpha1.Operation) { op.Revision = "r0" }, v1alpha1.ImpactNone},
		{"it was admitted, and its window closed", func(op *v1alpha1.Operation) { op.AdmittedImpact = v1alpha1.ImpactDrain }, v1alpha1.ImpactNone},
		{"somebody has canceled it", func(op *v1alpha1.Operation) { op.CancelRequestedBy = "alice" }, v1alpha1.ImpactNone},
		{"the host was changed", func(op *v1alpha1.Operation) { op.HostChanged = true }, v1alpha1.ImpactNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				instance, begun := needsUpdate("a"), metav1.NewTime(time.Now().Add(-time.Minute))
				op := &v1alpha1.Operation{
					ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationCanceled, Origin: v1alpha1.OriginController, Revision: "r2",
					Impact: v1alpha1.ImpactDrain, AdmittedImpact: v1alpha1.ImpactNone, StartedAt: &begun, FinishedAt: &begun, Node: &v1alpha1.OperationNode{Name: "a"}, Steps: newSteps(),
				}
				tt.edit(op)
				instance.Status.Operation = op
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactNone}, instance)
				f.pass()
				f.pass()
				if got := f.operation("a"); got.ID == "op-1" || got.AdmittedImpact != tt.want {
					t.Errorf("it has %+v", got)
				}
			})
		})
	}
}
