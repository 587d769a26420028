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
	accepted := func(i *v1alpha1.WindowsInstance, fingerprint string) *v1alpha1.WindowsInstance {
		i = i.DeepCopy()
		i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprint}
		return i
	}
	lost, accepts := accepted(refuses, "SHA256:a"), accepted(with("ok", v1alpha1.ConditionAuthenticated, v1alpha1.ReasonLoggedIn), "SHA256:a")
	lost.Name = "lost"
	refusesNow := with("done", v1alpha1.ConditionAuthenticated, v1alpha1.ReasonCredentialsRefused)
	refusesNow.Status.Conditions = append(refusesNow.Status.Conditions, done.Status.Conditions...)
	for _, test := range []struct {
		name            string
		instances       []*v1alpha1.WindowsInstance
		reason, message string
	}{
		{"never replaced", []*v1alpha1.WindowsInstance{accepts, {}}, "", ""},
		{"one that has never accepted a key", []*v1alpha1.WindowsInstance{refuses, accepts}, "", ""},
		{"one that has accepted a password", []*v1alpha1.WindowsInstance{accepted(refuses, "")}, "", ""},
		{"replaced before, and all refuse", []*v1alpha1.WindowsInstance{refusesNow}, v1alpha1.ReasonHostsRefuse,
			"1 host accepts neither the key of its Secret nor one that was kept, see its condition Authenticated: done."},
		{"replaced for the first time, and no copy of the former key is left", []*v1alpha1.WindowsInstance{lost}, v1alpha1.ReasonHostsRefuse,
			"1 host accepts neither the key of its Secret nor one that was kept, see its condition Authenticated: lost."},
		{"the same, and one that has never accepted a key", []*v1alpha1.WindowsInstance{refuses, lost, accepts}, v1alpha1.ReasonHostsRefuse,
			"2 hosts accept neither the key of their Secret nor one that was kept, see their condition Authenticated: lost, refuses."},
		{"all have it", []*v1alpha1.WindowsInstance{done, {}}, v1alpha1.ReasonKeyRotated, "All hosts accept the key of their Secret."},
		{"some get it", []*v1alpha1.WindowsInstance{done, pending, pending}, v1alpha1.ReasonKeyRotationPending, "2 hosts get another key: pending, pending."},
		{"some hang", []*v1alpha1.WindowsInstance{hangs, done, pending}, v1alpha1.ReasonKeyRotationInterrupted,
			"1 host gets another key: pending. 1 host did not answer while it was given the key, which is tried again: hangs."},
		{"all of them hang", []*v1alpha1.WindowsInstance{hangs, hangs}, v1alpha1.ReasonKeyRotationInterrupted,
			"2 hosts did not answer while they were given the key, which is tried again: hangs, hangs."},
		{"some refuse", []*v1alpha1.WindowsInstance{done, refuses, pending}, v1alpha1.ReasonHostsRefuse,
			"1 host gets another key: pending. 1 host accepts neither the key of its Secret nor one that was kept, see its condition Authenticated: refuses."},
		{"some cannot get it", []*v1alpha1.WindowsInstance{refuses, failed}, v1alpha1.ReasonKeyRotationFailed,
			"1 host accepts neither the key of its Secret nor one that was kept, see its condition Authenticated: refuses. 1 host could not be given the key, see its condition CredentialsCurrent: failed."},
		{"several cannot get it", []*v1alpha1.WindowsInstance{failed, failed}, v1alpha1.ReasonKeyRotationFailed,
			"2 hosts could not be given the key, see their condition CredentialsCurrent: failed, failed."},
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
