// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// volumes sets which volumes of the Node are mounted, and attached.
func (f *fixture) volumes(inUse []corev1.UniqueVolumeName, attached []corev1.AttachedVolume) {
	f.editNode(func(node *corev1.Node) { node.Status.VolumesInUse, node.Status.VolumesAttached = inUse, attached })
}

// TestVolumesLeaveFirst: the kubelet of a host is not stopped before it has unmounted the volumes of the pods that have left, and a host is not removed
// before they are detached; but not for ever.
func TestVolumesLeaveFirst(t *testing.T) {
	t.Parallel()
	const (
		unmounted = 40 * time.Second
		detached  = 60 * time.Second
	)
	for _, tt := range []struct {
		name      string
		operation v1alpha1.Operation
		step      string
		change    change
		impact    config.Impact
		// stays: the volumes are never unmounted. given: they are not waited for either, as nobody is there to unmount them.
		stays, given bool
		// lost: the cluster has found out so long ago that it has lost the Node. Zero: it has not. recovers: the kubelet reports again after 20 s.
		lost     time.Duration
		recovers bool
		// notReady: its kubelet says that it is not ready.
		notReady bool
		// away: the API server cannot be asked for three minutes, in which the kubelet cannot report either.
		away bool
		// The step after the drain begins then.
		from, to time.Duration
	}{
		{name: "removal", operation: removeOperation(), step: v1alpha1.StepDrain, change: isBeingDeleted, from: detached, to: detached + 10*time.Second},
		{name: "removal, and they stay", operation: removeOperation(), step: v1alpha1.StepDrain, change: isBeingDeleted, stays: true, from: detachPatience, to: detachPatience + 10*time.Second},
		{name: "reboot", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, from: unmounted, to: unmounted + 10*time.Second},
		{name: "reboot of a lost Node", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, lost: time.Hour, to: 5 * time.Second},
		{name: "reboot of a Node that was found lost just now", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, lost: 10 * time.Second, stays: true, given: true, from: lostAfter - 10*time.Second, to: lostAfter},
		{name: "reboot of a Node that only seemed lost", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, lost: 10 * time.Second, recovers: true, from: unmounted, to: unmounted + 10*time.Second},
		{name: "reboot of a Node that is not ready", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, notReady: true, from: unmounted, to: unmounted + 10*time.Second},
		{name: "reboot, and the API server is away", operation: rebootOperation(v1alpha1.RebootGraceful), step: v1alpha1.StepDrain, away: true, from: 3*time.Minute + unmounted, to: 4 * time.Minute},
		{name: "a configuration without a restart", operation: reconfigureOperation(), step: v1alpha1.StepDrain, impact: config.ImpactDrain, to: 5 * time.Second},
		{name: "drain", operation: drainOperation(), step: v1alpha1.StepEvict, to: 5 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			changes := []change{}
			if tt.change != nil {
				changes = append(changes, tt.change, configuredBefore)
			}
			f := newFixture(t, newInstance(tt.operation, changes...))
			f.configure()
			f.host.impact = tt.impact
			inUse, attached := []corev1.UniqueVolumeName{"csi/disk-1"}, []corev1.AttachedVolume{{Name: "csi/disk-1"}}
			f.volumes(inUse, attached)
			if tt.lost > 0 {
				f.editNode(lostFor(tt.lost))
			}
			if tt.recovers {
				defer time.AfterFunc(20*time.Second, func() {
					f.editNode(func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionTrue })
				}).Stop()
			}
			if tt.notReady {
				f.editNode(func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse })
			}
			back := time.Duration(0)
			if tt.away {
				back = 3 * time.Minute
				began := time.Now()
				f.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
					if since := time.Since(began); since > 5*time.Second && since < back {
						return true, nil, apierrors.NewServiceUnavailable("it is away")
					}
					return false, nil, nil
				})
			}
			if !tt.stays {
				defer time.AfterFunc(back+unmounted, func() { f.volumes(nil, attached) }).Stop()
				defer time.AfterFunc(back+detached, func() { f.volumes(nil, nil) }).Stop()
			}
			op := f.finish()
			step := op.FindStep(tt.step)
			if step == nil || step.FinishedAt == nil {
				t.Fatalf("it is %s: %s", op.Phase, op.Message)
			}
			if took := step.FinishedAt.Sub(step.StartedAt.Time); took < tt.from-time.Second || took > tt.to {
				t.Errorf("the pods and volumes took %s to leave, want %s to %s", took, tt.from, tt.to)
			}
			if said := strings.Contains(step.Message, "Volumes that its kubelet uses: 1, the first is csi/disk-1, and were not waited for any longer"); said != (tt.stays && !tt.given) {
				t.Errorf("the step says %q", step.Message)
			}
		})
	}
}
