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
// ever rotated.
func credentialsCondition(instances []*v1alpha1.WindowsInstance) *metav1.Condition {
	var pending, interrupted, failed, refuse []string
	rotated := 0
	for _, i := range instances {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
		login := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionAuthenticated)
		switch {
		case login != nil && login.Reason == v1alpha1.ReasonCredentialsRefused:
			refuse = append(refuse, i.Name)
		case c == nil:
		case c.Reason == v1alpha1.ReasonKeyRotationFailed:
			failed = append(failed, i.Name)
		case c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
			interrupted = append(interrupted, i.Name)
		case c.Status == metav1.ConditionFalse:
			pending = append(pending, i.Name)
		default:
			rotated++
		}
	}
	if rotated+len(pending)+len(interrupted)+len(failed) == 0 {
		return nil
	}
	out := &metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: metav1.ConditionFalse}
	var text []string
	say := func(reason, format string, names []string) {
		if len(names) > 0 {
			out.Reason = reason
			text = append(text, fmt.Sprintf(format, len(names), words.Enumerate(slices.Sorted(slices.Values(names)), maxFailed)))
		}
	}
	// The last reason counts: what somebody has to act on.
	say(v1alpha1.ReasonKeyRotationPending, "%d hosts get another key: %s.", pending)
	say(v1alpha1.ReasonKeyRotationInterrupted, "%d hosts did not answer while they were given the key, which is tried again: %s.", interrupted)
	say(v1alpha1.ReasonHostsRefuse, "%d hosts accept neither the key of their Secret nor one that was kept, see their condition Authenticated: %s.", refuse)
	say(v1alpha1.ReasonKeyRotationFailed, "%d hosts could not be given the key, see their condition CredentialsCurrent: %s.", failed)
	if len(text) == 0 {
		out.Status, out.Reason, text = metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, []string{"All hosts accept the key of their Secret."}
	}
	out.Message = strings.Join(text, " ")
	return out
}
