// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestUpdateBlockedBy: a host is told what keeps it from its update, and not which hosts come before it.
func TestUpdateBlockedBy(t *testing.T) {
	window := func(schedule string) func(*v1alpha1.PoolUpdateStrategy) {
		return func(s *v1alpha1.PoolUpdateStrategy) {
			s.Window = &v1alpha1.MaintenanceWindow{Schedule: schedule, DurationSeconds: 3600}
		}
	}
	const inWindow = "It is updated when it gets a disruption slot in the window of pool p (spec.updateStrategy.window)."
	for _, tt := range []struct {
		name     string
		strategy func(*v1alpha1.PoolUpdateStrategy)
		others   []*v1alpha1.WindowsInstance
		want     string
	}{
		{"its turn", func(*v1alpha1.PoolUpdateStrategy) {}, nil, ""},
		{"the window", window("0 14 * * *"), nil, inWindow},
		{"its turn in the window", window("30 11 * * *"), nil, inWindow},
		{"somebody", func(s *v1alpha1.PoolUpdateStrategy) { s.Type = v1alpha1.OnRequest }, nil, "kubectl windows reconfigure b -n ns"},
		{"the canaries", func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromInt32(0)) }, nil, "canary says are updated first. It follows when that is raised or removed."},
		{"a host that is broken", func(*v1alpha1.PoolUpdateStrategy) {}, []*v1alpha1.WindowsInstance{edited(works(), func(i *v1alpha1.WindowsInstance) {
			i.Name, i.Status.Node = "c", &v1alpha1.NodeReference{Name: "c"}
			i.Status.Operation = &v1alpha1.Operation{ID: "op", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, HostChanged: true, Node: &v1alpha1.OperationNode{}, Impact: v1alpha1.ImpactDrain}
		})}, "It is not updated while hosts of pool p are broken by an update or a restart."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
				tt.strategy(&pool.Spec.UpdateStrategy)
				b := needsUpdate("b")
				f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"a": v1alpha1.ImpactDrain, "b": v1alpha1.ImpactDrain}, pool, needsUpdate("a"), b)
				for _, other := range tt.others {
					if err := f.client.Create(t.Context(), other); err != nil {
						t.Fatal(err)
					}
					if err := f.client.Status().Update(t.Context(), other); err != nil {
						t.Fatal(err)
					}
				}
				var told []string
				f.notifyInstance = func(_ context.Context, key types.NamespacedName) { told = append(told, key.Name) }
				f.clock = clocktesting.NewFakePassiveClock(testNow)
				if text, known := f.UpdateBlockedBy(b); text != "" || known {
					t.Errorf("before the first pass: %q, %t", text, known)
				}
				f.pass()
				if text, known := f.UpdateBlockedBy(b); text != "" || known || slices.Contains(told, "b") {
					t.Errorf("before it has said what its update costs: %q, %t", text, known)
				}
				f.pass()
				if text, known := f.UpdateBlockedBy(b); !known || !strings.HasSuffix(text, tt.want) || tt.want == "" && text != "" {
					t.Errorf("got %q", text)
				}
				if !slices.Contains(told, "b") {
					t.Errorf("told %s", told)
				}
				told = nil
				f.pass()
				if len(told) > 0 {
					t.Errorf("told %s once more", told)
				}
			})
		})
	}
}

// TestUpdateBlockedByWithoutAnAnswer: what kept a host before is told no longer when it cannot say what its update costs.
func TestUpdateBlockedByWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		pool.Spec.UpdateStrategy.Type = v1alpha1.OnRequest
		b := needsUpdate("b")
		f := newScheduled(t, map[string]v1alpha1.ChangeImpact{"b": v1alpha1.ImpactDrain}, pool, b)
		var told []string
		f.notifyInstance = func(_ context.Context, key types.NamespacedName) { told = append(told, key.Name) }
		f.refuses = errors.New("the host is off")
		f.pass()
		f.pass()
		if text, known := f.UpdateBlockedBy(b); text != "" || !known || !slices.Contains(told, "b") {
			t.Errorf("got %q, %t, told %s", text, known, told)
		}
	})
}
