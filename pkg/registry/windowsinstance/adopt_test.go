// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestNotForeign: what is not known yet is not taken for an answer.
func TestNotForeign(t *testing.T) {
	const later = "it is not known yet whether the host is left to another operator; try again"
	running := &v1alpha1.Operation{Phase: v1alpha1.OperationRunning}
	ended := &v1alpha1.Operation{Phase: v1alpha1.OperationFailed}
	for _, tt := range []struct {
		reason    string
		operation *v1alpha1.Operation
		want      string // its beginning
	}{
		{v1alpha1.ReasonForeignNode, nil, ""},
		{v1alpha1.ReasonManagedByWMCO, ended, ""},
		{v1alpha1.ReasonForeignNode, &v1alpha1.Operation{Phase: v1alpha1.OperationFailed, ReleaseBegun: true}, "It says so."},
		{v1alpha1.ReasonNotTried, ended, later},
		{v1alpha1.ReasonConfiguring, ended, later},
		{v1alpha1.ReasonConfiguring, running, "the host is not left to another operator: It says so."},
		{v1alpha1.ReasonConfigured, nil, "the host is not left to another operator: It says so."},
		{"", nil, "nothing is known of the host yet"},
	} {
		instance := &v1alpha1.WindowsInstance{Status: v1alpha1.WindowsInstanceStatus{Operation: tt.operation}}
		if tt.reason != "" {
			instance.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Reason: tt.reason, Message: "It says so."}}
		}
		if got := notForeign(instance); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
	}
}
