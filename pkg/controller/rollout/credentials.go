// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// credentialsCondition says how many hosts of a pool have the key of their Secret, and which cannot get it. Nil: no key was
// ever replaced, and no host has ceased to accept one.
func credentialsCondition(instances []*v1alpha1.WindowsInstance) *metav1.Condition {
	var pending, interrupted, failed, refuse []string
	concerned := false
	for _, i := range instances {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
		login := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionAuthenticated)
		refuses := login != nil && login.Reason == v1alpha1.ReasonCredentialsRefused
		// A host that had accepted a key has lost it when the key was replaced, perhaps for the first time: when the former one is
		// compromised nobody logs in with it any more, and so no host gets a condition of its own.
		concerned = concerned || c != nil || refuses && i.Status.Credentials != nil && i.Status.Credentials.KeyFingerprint != ""
		switch {
		case refuses:
			refuse = append(refuse, i.Name)
		case c == nil:
		case c.Reason == v1alpha1.ReasonKeyRotationFailed:
			failed = append(failed, i.Name)
		case c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
			interrupted = append(interrupted, i.Name)
		case c.Status == metav1.ConditionFalse:
			pending = append(pending, i.Name)
		}
	}
	if !concerned {
		return nil
	}
	out := &metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: metav1.ConditionFalse}
	var text []string
	say := func(reason string, names []string, one, several string) {
		if len(names) == 0 {
			return
		}
		what := "1 host " + one
		if len(names) > 1 {
			what = fmt.Sprintf("%d hosts %s", len(names), several)
		}
		out.Reason = reason
		text = append(text, what+": "+words.Enumerate(slices.Sorted(slices.Values(names)), maxFailed)+".")
	}
	// The last reason counts: what somebody has to act on.
	say(v1alpha1.ReasonKeyRotationPending, pending, "gets another key", "get another key")
	say(v1alpha1.ReasonKeyRotationInterrupted, interrupted,
		"did not answer while it was given the key, which is tried again", "did not answer while they were given the key, which is tried again")
	say(v1alpha1.ReasonHostsRefuse, refuse,
		"accepts neither the key of its Secret nor one that was kept, see its condition Authenticated",
		"accept neither the key of their Secret nor one that was kept, see their condition Authenticated")
	say(v1alpha1.ReasonKeyRotationFailed, failed,
		"could not be given the key, see its condition CredentialsCurrent", "could not be given the key, see their condition CredentialsCurrent")
	if len(text) == 0 {
		out.Status, out.Reason, text = metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, []string{"All hosts accept the key of their Secret."}
	}
	out.Message = strings.Join(text, " ")
	return out
}
