// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

func TestEqual(t *testing.T) {
	base := func() *acwindowsv1alpha1.WindowsInstanceApplyConfiguration {
		return acwindowsv1alpha1.WindowsInstance("a", "ns").
			WithAnnotations(map[string]string{"x": "y"}).
			WithSpec(acwindowsv1alpha1.WindowsInstanceSpec().WithAddress("10.0.0.1").WithHostKeys("k1", "k2"))
	}
	tests := []struct {
		name string
		edit func(*acwindowsv1alpha1.WindowsInstanceApplyConfiguration)
		want bool
	}{
		{name: "the same", edit: func(*acwindowsv1alpha1.WindowsInstanceApplyConfiguration) {}, want: true},
		{name: "an empty object more", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) {
			i.Spec.WithPoolRef(acwindowsv1alpha1.PoolReference())
		}, want: true},
		{name: "an empty list more", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) {
			i.OwnerReferences = []acmetav1.OwnerReferenceApplyConfiguration{}
		}, want: true},
		{name: "another value", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) { i.Spec.WithAddress("10.0.0.2") }},
		{name: "a field more", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) { i.Spec.WithPort(22) }},
		{name: "a false more", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) { i.Spec.WithPaused(false) }},
		{name: "a field less", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) { i.Spec.HostKeys = nil }},
		{name: "another order", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) { i.Spec.HostKeys = []string{"k2", "k1"} }},
		{name: "an annotation more", edit: func(i *acwindowsv1alpha1.WindowsInstanceApplyConfiguration) {
			i.WithAnnotations(map[string]string{"z": ""})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := base()
			tt.edit(other)
			got, err := equal(base(), other)
			if got != tt.want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestContains(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	condition := func(conditionType, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: "m", LastTransitionTime: now}
	}
	have := v1alpha1.WindowsNodePoolStatus{
		Phase: v1alpha1.PoolReady, Replicas: 2,
		Conditions: []metav1.Condition{condition("A", "a"), condition("B", "b")},
	}
	status := acwindowsv1alpha1.WindowsNodePoolStatus
	tests := []struct {
		name string
		want *acwindowsv1alpha1.WindowsNodePoolStatusApplyConfiguration
		has  bool
	}{
		{name: "nothing", want: status(), has: true},
		{name: "a part", want: status().WithReplicas(2), has: true},
		{name: "another value", want: status().WithReplicas(3)},
		{name: "a zero that is left out", want: status().WithObservedGeneration(0), has: true},
		{name: "a value that is not there", want: status().WithObservedGeneration(1)},
		{name: "a zero that is another value", want: status().WithReplicas(0)},
		{name: "one of the conditions", want: status().WithConditions(Condition(nil, condition("B", "b"), now.Time)), has: true},
		{name: "both in another order", want: status().WithConditions(Condition(nil, condition("B", "b"), now.Time), Condition(nil, condition("A", "a"), now.Time)), has: true},
		{name: "a condition with another reason", want: status().WithConditions(Condition(nil, condition("B", "c"), now.Time))},
		{name: "another condition", want: status().WithConditions(Condition(nil, condition("C", "c"), now.Time))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := contains(&have, tt.want)
			if got != tt.has || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, tt.has)
			}
		})
	}
}

func TestContainsRemovals(t *testing.T) {
	removal := func(name string) v1alpha1.PoolRemoval {
		return v1alpha1.PoolRemoval{Name: name, Time: metav1.NewTime(time.Unix(1000, 0))}
	}
	have := v1alpha1.WindowsNodePoolStatus{RecentRemovals: []v1alpha1.PoolRemoval{removal("a"), removal("b")}}
	for _, tt := range []struct {
		name string
		want []string
		has  bool
	}{
		{"the same", []string{"a", "b"}, true},
		{"another one", []string{"a", "c"}, false},
		{"one more", []string{"a", "b", "c"}, false},
		{"another order", []string{"b", "a"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := acwindowsv1alpha1.WindowsNodePoolStatus()
			for _, name := range tt.want {
				want.WithRecentRemovals(acwindowsv1alpha1.PoolRemoval().WithName(name).WithTime(removal(name).Time))
			}
			if has, err := contains(&have, want); has != tt.has || err != nil {
				t.Errorf("got %v, %v, want %v", has, err, tt.has)
			}
		})
	}
}

func TestCondition(t *testing.T) {
	before, now := time.Unix(1000, 0), time.Unix(2000, 999)
	current := []metav1.Condition{{Type: "A", Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(before)}}
	tests := []struct {
		name    string
		current []metav1.Condition
		status  metav1.ConditionStatus
		want    time.Time
	}{
		{name: "new", status: metav1.ConditionTrue, want: time.Unix(2000, 0)},
		{name: "status stays", current: current, status: metav1.ConditionTrue, want: before},
		{name: "status changes", current: current, status: metav1.ConditionFalse, want: time.Unix(2000, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Condition(tt.current, metav1.Condition{Type: "A", Status: tt.status, Reason: "y"}, now)
			if !got.LastTransitionTime.Time.Equal(tt.want) {
				t.Errorf("got %v, want %v", got.LastTransitionTime, tt.want)
			}
		})
	}
}
