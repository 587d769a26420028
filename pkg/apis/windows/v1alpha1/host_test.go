// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIdentified(t *testing.T) {
	authenticated := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: ConditionAuthenticated, Status: status}}
	}
	for name, tc := range map[string]struct {
		status WindowsInstanceStatus
		want   bool
	}{
		"nothing is known":                    {WindowsInstanceStatus{}, false},
		"a host key is recorded":              {WindowsInstanceStatus{HostKeys: []HostKeyStatus{{Key: "k"}}, Addresses: []string{"10.0.0.5"}}, false},
		"the credentials are refused":         {WindowsInstanceStatus{Conditions: authenticated(metav1.ConditionFalse)}, false},
		"an operation tried it":               {WindowsInstanceStatus{Operation: &Operation{Type: OperationReconfigure}}, false},
		"it has a Node, by an early release":  {WindowsInstanceStatus{Node: &NodeReference{Name: "n"}}, false},
		"logged in":                           {WindowsInstanceStatus{Conditions: authenticated(metav1.ConditionTrue)}, true},
		"known, and down":                     {WindowsInstanceStatus{MachineID: "m/w", Conditions: authenticated(metav1.ConditionUnknown)}, true},
		"inspected by an early release":       {WindowsInstanceStatus{Version: "v0.1"}, true},
		"configured by an early release":      {WindowsInstanceStatus{Operation: &Operation{Type: OperationReconfigure, Steps: []OperationStep{{Name: StepApply, StartedAt: &metav1.Time{}}}}}, true},
		"configured, and its key is replaced": {WindowsInstanceStatus{History: []Operation{{HostChanged: true}}, Conditions: authenticated(metav1.ConditionFalse)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.status.Identified(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSameMachine(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"the same", "f1/w1", "f1/w1", true},
		{"reinstalled", "f1/w1", "f1/w2", true},
		{"a clone", "f1/w1", "f2/w1", false},
		{"another one", "f1/w1", "f2/w2", false},
		{"nothing is known", "", "f1/w1", true},
		{"firmware without an ID", "/w1", "f1/w1", true},
		{"firmware without an ID, and another Windows", "/w1", "f1/w2", false},
		{"neither has one", "/w1", "/w2", false},
		{"Windows does not say it", "f1/", "f1/w1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if SameMachine(tt.a, tt.b) != tt.want || SameMachine(tt.b, tt.a) != tt.want {
				t.Errorf("want %v", tt.want)
			}
		})
	}
}

// A host that says nothing of itself is not every machine.
func TestSilentHost(t *testing.T) {
	keys := []HostKeyStatus{{Type: "ssh-ed25519", Key: "k"}}
	silent, other := &WindowsInstanceStatus{MachineID: "/", HostKeys: keys}, &WindowsInstanceStatus{MachineID: "f1/w1", HostKeys: keys}
	if silent.SameHost(other) || other.SameHost(silent) || !silent.SameHost(silent) {
		t.Error("it is taken for another machine")
	}
}
