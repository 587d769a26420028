// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// secretWith is a Secret that was looked at, and has keys.
func secretWith(fingerprints ...string) KeysFunc {
	return func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool) ([]string, bool) { return fingerprints, true }
}

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
	done, ok := accepted(done, "SHA256:a"), accepts
	hasFormer := func(name string) *v1alpha1.WindowsInstance {
		i := accepted(done, "SHA256:former")
		i.Name = name
		return i
	}
	untouched := accepted(ok, "SHA256:former")
	untouched.Name = "untouched"
	leaves := hasFormer("leaves")
	leaves.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	fresh := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
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
		{"all have it", []*v1alpha1.WindowsInstance{done, ok, leaves}, v1alpha1.ReasonKeyRotated, "All hosts accept the key of their Secret."},
		{"one was not logged in to yet", []*v1alpha1.WindowsInstance{done, fresh}, v1alpha1.ReasonNotTried, "1 host was not logged in to yet: fresh."},
		{"one was not logged in to yet, and one has a former key", []*v1alpha1.WindowsInstance{done, fresh, untouched}, v1alpha1.ReasonKeyRotationPending, "1 host gets another key: untouched."},
		{"replaced for the first time, and no host was logged in to since", []*v1alpha1.WindowsInstance{untouched}, v1alpha1.ReasonKeyRotationPending, "1 host gets another key: untouched."},
		{"replaced once more, and no host was logged in to since", []*v1alpha1.WindowsInstance{hasFormer("b"), hasFormer("a"), done}, v1alpha1.ReasonKeyRotationPending, "2 hosts get another key: a, b."},
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
		got := credentialsCondition(&v1alpha1.WindowsNodePool{}, test.instances, secretWith("SHA256:a", "SHA256:another"))
		if test.reason == "" {
			if got != nil {
				t.Errorf("%s: %+v", test.name, got)
			}
			continue
		}
		want := &metav1.Condition{Type: current, Status: metav1.ConditionFalse, Reason: test.reason, Message: test.message}
		switch test.reason {
		case v1alpha1.ReasonKeyRotated:
			want.Status = metav1.ConditionTrue
		case v1alpha1.ReasonNotTried:
			want.Status = metav1.ConditionUnknown
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}

// TestCredentialsConditionBySecret: that hosts have their key is said only of keys that their Secrets are known to have.
func TestCredentialsConditionBySecret(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: status, Reason: reason, Message: message}
	}
	host := func(name, fingerprint string) *v1alpha1.WindowsInstance {
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name}}
		i.Status.Conditions = []metav1.Condition{condition(metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, "It has it.")}
		i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprint}
		return i
	}
	unread := func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool) ([]string, bool) { return nil, false }
	perHost := func(i *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool) ([]string, bool) {
		return []string{"key of " + i.Name}, true
	}
	is := condition(metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, "All hosts accept the key of their Secret.")
	for name, tt := range map[string]struct {
		hosts  []*v1alpha1.WindowsInstance
		keys   KeysFunc
		before []metav1.Condition
		want   metav1.Condition
	}{
		"a password":                         {[]*v1alpha1.WindowsInstance{host("a", "")}, secretWith(""), nil, is},
		"from a password to a key":           {[]*v1alpha1.WindowsInstance{host("a", "")}, secretWith("k"), []metav1.Condition{is}, condition(metav1.ConditionFalse, v1alpha1.ReasonKeyRotationPending, "1 host gets another key: a.")},
		"Secrets of their own":               {[]*v1alpha1.WindowsInstance{host("a", "key of a"), host("b", "key of b")}, perHost, nil, is},
		"the Secret of another":              {[]*v1alpha1.WindowsInstance{host("a", "key of a"), host("b", "key of a")}, perHost, nil, condition(metav1.ConditionFalse, v1alpha1.ReasonKeyRotationPending, "1 host gets another key: b.")},
		"the Secret is gone":                 {[]*v1alpha1.WindowsInstance{host("a", "k")}, secretWith(), []metav1.Condition{is}, condition(metav1.ConditionUnknown, v1alpha1.ReasonCredentialsMissing, "1 host has a Secret without a key that can be used, see its condition Authenticated: a.")},
		"the controller has begun":           {[]*v1alpha1.WindowsInstance{host("a", "k")}, unread, nil, condition(metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "Which keys the Secrets of the hosts have was not read yet.")},
		"the controller has begun once more": {[]*v1alpha1.WindowsInstance{host("a", "k")}, unread, []metav1.Condition{is}, is},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{}
			pool.Status.Conditions = tt.before
			if diff := cmp.Diff(&tt.want, credentialsCondition(pool, tt.hosts, tt.keys)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestReconcileTellsOfKeys: the pool says of a key that was replaced before any host has met it, and that all have it when they do.
func TestReconcileTellsOfKeys(t *testing.T) {
	f := newRollbackPool(t, "a", "b")
	accept := func(name, fingerprint string) {
		f.host(name, func(i *v1alpha1.WindowsInstance) {
			i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: fingerprint}
		})
	}
	says := func(fingerprint string) string {
		f.Reconciler.keys = secretWith(fingerprint)
		pool := f.pass()
		c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
		if c == nil {
			return ""
		}
		if c.ObservedGeneration != pool.Generation {
			t.Errorf("it is about generation %d", c.ObservedGeneration)
		}
		return string(c.Status) + " " + c.Message
	}
	accept("a", "was")
	accept("b", "was")
	if got := says("was"); got != "" {
		t.Errorf("before: %q", got)
	}
	if got := says("is"); got != "False 2 hosts get another key: a, b." {
		t.Errorf("after: %q", got)
	}
	f.host("a", func(i *v1alpha1.WindowsInstance) {
		meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonKeyRotated})
	})
	accept("a", "is")
	if got := says("is"); got != "False 1 host gets another key: b." {
		t.Errorf("one has it: %q", got)
	}
	accept("b", "is")
	if got := says("is"); got != "True All hosts accept the key of their Secret." {
		t.Errorf("both have it: %q", got)
	}
	if got := says("another"); got != "False 2 hosts get another key: a, b." {
		t.Errorf("once more: %q", got)
	}
}
