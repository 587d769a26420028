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

// KeysFunc returns the fingerprints of the keys of which the host of an instance is to accept one, that of a password being empty; pool is its
// pool. There is none if its Secret cannot be read, or cannot be used. It reports false while nobody has looked.
type KeysFunc func(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (fingerprints []string, ok bool)

// credentialsCondition says how many hosts of a pool have the key of their Secret, and which cannot get it. Nil: no key was
// ever replaced, and no host has ceased to accept one. That all have it is said when it is known of each of them: by what they accept, and
// not by what they say themselves, which is about the key that the Secret had when they were logged in to last.
func credentialsCondition(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, keys KeysFunc) *metav1.Condition {
	var pending, interrupted, failed, refuse, keyless, unknown []string
	concerned, looked := false, true
	for _, i := range instances {
		if !i.DeletionTimestamp.IsZero() {
			continue // its host gets no key any more
		}
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
		login := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionAuthenticated)
		refuses := login != nil && login.Reason == v1alpha1.ReasonCredentialsRefused
		accepts := i.Status.Credentials
		// A host that had accepted a key has lost it when the key was replaced, perhaps for the first time: when the former one is
		// compromised nobody logs in with it any more, and so no host gets a condition of its own.
		concerned = concerned || c != nil || refuses && accepts != nil && accepts.KeyFingerprint != ""
		switch {
		case refuses:
			refuse = append(refuse, i.Name)
		case c != nil && c.Reason == v1alpha1.ReasonKeyRotationFailed:
			failed = append(failed, i.Name)
		case c != nil && c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
			interrupted = append(interrupted, i.Name)
		case c != nil && c.Status == metav1.ConditionFalse:
			pending = append(pending, i.Name)
		case accepts == nil:
			unknown = append(unknown, i.Name)
		default:
			fingerprints, ok := keys(i, pool)
			switch {
			case !ok:
				looked = false
			case len(fingerprints) == 0:
				keyless = append(keyless, i.Name)
			case !slices.Contains(fingerprints, accepts.KeyFingerprint): // it was not logged in to since the key was replaced
				pending, concerned = append(pending, i.Name), true
			}
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
		out.Reason = reason
		text = append(text, fmt.Sprintf("%s %s: %s.", words.Count(len(names), "host"), words.Form(len(names), one, several), enumerate(names)))
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
		out.Status = metav1.ConditionUnknown
		say(v1alpha1.ReasonNotTried, unknown, "was not logged in to yet", "were not logged in to yet")
		say(v1alpha1.ReasonCredentialsMissing, keyless, "has a Secret without a key that can be used, see its condition Authenticated",
			"have a Secret without a key that can be used, see their condition Authenticated")
	}
	switch before := meta.FindStatusCondition(pool.Status.Conditions, out.Type); {
	case len(text) > 0:
	case looked:
		out.Status, out.Reason, text = metav1.ConditionTrue, v1alpha1.ReasonKeyRotated, []string{"All hosts accept the key of their Secret."}
	case before != nil && before.Status == metav1.ConditionTrue:
		return before.DeepCopy() // the controller has begun a moment ago, and nothing speaks against it
	default:
		out.Reason, text = v1alpha1.ReasonNotTried, []string{"Which keys the Secrets of the hosts have was not read yet."}
	}
	out.Message = strings.Join(text, " ")
	return out
}
