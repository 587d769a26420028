// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apply

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Condition returns want for a server-side apply. The time of the last transition
// is that of the condition in current as long as the status stays, else now. Want
// must have a type, a status, a reason and the generation it speaks of.
func Condition(current []metav1.Condition, want metav1.Condition, now time.Time) *acmetav1.ConditionApplyConfiguration {
	// The API keeps whole seconds: anything finer would differ from what comes back.
	since := metav1.NewTime(now).Rfc3339Copy()
	if have := meta.FindStatusCondition(current, want.Type); have != nil && have.Status == want.Status {
		since = have.LastTransitionTime
	}
	return acmetav1.Condition().
		WithType(want.Type).
		WithStatus(want.Status).
		WithObservedGeneration(want.ObservedGeneration).
		WithLastTransitionTime(since).
		WithReason(want.Reason).
		WithMessage(want.Message)
}
