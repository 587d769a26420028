// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
)

// Reasons of events that are not reasons of conditions.
const (
	eventHostKeyRecorded = "HostKeyRecorded"
	eventAuthenticated   = "Authenticated"
	eventFactsGathered   = "FactsGathered"
	eventRecovered       = "Recovered"
	// eventHostKeyNotCompared is no change of a status.
	eventHostKeyNotCompared = "HostKeyNotCompared"
)

// transition is a change of a status that is worth an event.
type transition struct {
	eventType, reason, note string
}

// transitions compares two statuses of an instance. What was so before and is
// still so gives no event, however often the host is tried again.
func transitions(before, after *v1alpha1.WindowsInstanceStatus) []transition {
	var out []transition
	add := func(eventType, reason, note string) {
		out = append(out, transition{eventType, reason, message.EventNote(note)})
	}
	failedBefore, failedNow := failedCheck(before), failedCheck(after)

	if key := newFirstUse(before, after); key != nil {
		add(corev1.EventTypeNormal, eventHostKeyRecorded,
			"From now on only host key "+key.Type+" "+key.Fingerprint+" is trusted, the first that the host presented.")
	}
	if failedNow != nil && (failedBefore == nil || failedBefore.Type != failedNow.Type || failedBefore.Reason != failedNow.Reason) {
		add(corev1.EventTypeWarning, failedNow.Reason, failedNow.Message)
	}
	recovered := failedBefore != nil && failedNow == nil && meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionPreflightPassed)
	if recovered {
		add(corev1.EventTypeNormal, eventRecovered, "The host is well again; before: "+failedBefore.Message)
	} else if c := becameTrue(before, after, v1alpha1.ConditionAuthenticated); c != nil {
		add(corev1.EventTypeNormal, eventAuthenticated, c.Message)
	}
	if after.System != nil && !equality.Semantic.DeepEqual(before.System, after.System) {
		add(corev1.EventTypeNormal, eventFactsGathered, describeSystem(after.System))
	}
	if c := becameTrue(before, after, v1alpha1.ConditionPreflightPassed); c != nil && !recovered {
		add(corev1.EventTypeNormal, v1alpha1.ReasonPreflightPassed, c.Message)
	}
	if c := becameTrue(before, after, v1alpha1.ConditionRebootRequired); c != nil {
		add(corev1.EventTypeNormal, v1alpha1.ReasonRebootPending, c.Message)
	}
	if c := becameTrue(before, after, v1alpha1.ConditionConfigured); c != nil {
		add(corev1.EventTypeNormal, c.Reason, c.Message)
	}
	// That an operation failed is reported by who runs it.
	if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionConfigured); c != nil && c.Reason == v1alpha1.ReasonInputsMissing {
		if was := meta.FindStatusCondition(before.Conditions, c.Type); was == nil || was.Reason != c.Reason {
			add(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
	nodeBefore := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionNodeReady)
	if c := becameTrue(before, after, v1alpha1.ConditionNodeReady); c != nil {
		add(corev1.EventTypeNormal, v1alpha1.ReasonNodeReady, c.Message)
	} else if nodeBefore != nil && nodeBefore.Status == metav1.ConditionTrue {
		if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionNodeReady); c != nil && c.Status == metav1.ConditionFalse {
			add(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
	return out
}

// failedCheck is the condition that keeps a host from being used, if one was found out.
func failedCheck(status *v1alpha1.WindowsInstanceStatus) *metav1.Condition {
	for _, check := range checks {
		c := meta.FindStatusCondition(status.Conditions, check)
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonNotTried && c.Reason != v1alpha1.ReasonPaused {
			return c
		}
	}
	return nil
}

func becameTrue(before, after *v1alpha1.WindowsInstanceStatus, condition string) *metav1.Condition {
	if meta.IsStatusConditionTrue(before.Conditions, condition) || !meta.IsStatusConditionTrue(after.Conditions, condition) {
		return nil
	}
	return meta.FindStatusCondition(after.Conditions, condition)
}

// newFirstUse is a key that was recorded on first use and was not there before.
func newFirstUse(before, after *v1alpha1.WindowsInstanceStatus) *v1alpha1.HostKeyStatus {
	if len(before.HostKeys) > 0 || len(after.HostKeys) == 0 || after.HostKeys[0].TrustedBy != v1alpha1.TrustedOnFirstUse {
		return nil
	}
	return &after.HostKeys[0]
}

func describeSystem(s *v1alpha1.SystemStatus) string {
	text := orUnknown(s.Product) + " " + orUnknown(s.Build) + ", host name " + orUnknown(s.Hostname)
	if s.BootTime != nil {
		text += ", started " + s.BootTime.UTC().Format("2006-01-02 15:04 MST")
	}
	return text + "."
}
