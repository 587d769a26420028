// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func TestCredentialsCondition(t *testing.T) {
	with := func(name, condition, reason string) *v1alpha1.WindowsInstance {
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonKeyRotated {
			status = metav1.ConditionTrue
		}
		return &v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1alpha1.WindowsInstanceStatus{Conditions: []metav1.Condition{{Type: condition, Status: status, Reason: reason}}},
		}
	}
	const current = v1alpha1.ConditionCredentialsCurrent
	done, pending, failed := with("done", current, v1alpha1.ReasonKeyRotated), with("pending", current, v1alpha1.ReasonKeyRotationPending), with("failed", current, v1alpha1.ReasonKeyRotationFailed)
	hangs := with("hangs", current, v1alpha1.ReasonKeyRotationInterrupted)
	refuses := with("refuses", v1alpha1.ConditionAuthenticated, v1alpha1.ReasonCredentialsRefused)
	for _, test := range []struct {
		name            string
		instances       []*v1alpha1.WindowsInstance
		reason, message string
	}{
		{"never rotated", []*v1alpha1.WindowsInstance{refuses, {}}, "", ""},
		{"all have it", []*v1alpha1.WindowsInstance{done, {}}, v1alpha1.ReasonKeyRotated, "All hosts accept the key of their Secret."},
		{"some get it", []*v1alpha1.WindowsInstance{done, pending}, v1alpha1.ReasonKeyRotationPending, "1 hosts get another key: pending."},
		{"some hang", []*v1alpha1.WindowsInstance{hangs, done, pending}, v1alpha1.ReasonKeyRotationInterrupted,
			"1 hosts get another key: pending. 1 hosts did not answer while they were given the key, which is tried again: hangs."},
		{"all of them hang", []*v1alpha1.WindowsInstance{hangs}, v1alpha1.ReasonKeyRotationInterrupted, "1 hosts did not answer while they were given the key, which is tried again: hangs."},
		{"some refuse", []*v1alpha1.WindowsInstance{done, refuses, pending}, v1alpha1.ReasonHostsRefuse,
			"1 hosts get another key: pending. 1 hosts accept neither the key of their Secret nor one that was kept, see their condition Authenticated: refuses."},
		{"some cannot get it", []*v1alpha1.WindowsInstance{refuses, failed}, v1alpha1.ReasonKeyRotationFailed,
			"1 hosts accept neither the key of their Secret nor one that was kept, see their condition Authenticated: refuses. 1 hosts could not be given the key, see their condition CredentialsCurrent: failed."},
	} {
		got := credentialsCondition(test.instances)
		if test.reason == "" {
			if got != nil {
				t.Errorf("%s: %+v", test.name, got)
			}
			continue
		}
		want := &metav1.Condition{Type: current, Status: metav1.ConditionFalse, Reason: test.reason, Message: test.message}
		if test.reason == v1alpha1.ReasonKeyRotated {
			want.Status = metav1.ConditionTrue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}
