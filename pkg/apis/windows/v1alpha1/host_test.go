// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "testing"

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
