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
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
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
	// elsewhere is where else it is told.
	elsewhere audience
}

// audience is which objects besides the instance an event is told on.
type audience int

const (
	nobody audience = iota
	// ofSetup: the Machine or the ConfigMap that the instance comes from, as WMCO tells that its host could not be set up, until it is.
	ofSetup
	// ofHost: these, whether or not it is set up, and its Node.
	ofHost
)

// toldOn returns on which other objects a transition of an instance is told, and by which reason.
func toldOn(i *v1alpha1.WindowsInstance, t transition) (objects []*corev1.ObjectReference, reason string) {
	switch t.elsewhere {
	case ofSetup:
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured)
		ofOthers := c != nil && (c.Reason == v1alpha1.ReasonForeignNode || c.Reason == v1alpha1.ReasonManagedByWMCO)
		if i.Status.CurrentRevision != "" || ofOthers || i.Status.KeptOff() != nil {
			return nil, ""
		}
		return origin.Objects(i), origin.SetupFailure(i)
	case ofHost:
		objects = origin.Objects(i)
		if node := i.Status.Node; node != nil {
			objects = append(objects, &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID})
		}
		return objects, t.reason
	default:
		return nil, ""
	}
}

// transitions compares two statuses of an instance. What was so before and is
// still so gives no event, however often the host is tried again.
func transitions(before, after *v1alpha1.WindowsInstanceStatus) []transition {
	var out []transition
	tell := func(eventType, reason, note string, elsewhere audience) {
		out = append(out, transition{eventType, reason, message.EventNote(note), elsewhere})
	}
	add := func(eventType, reason, note string) { tell(eventType, reason, note, nobody) }
	failedBefore, failedNow := failedCheck(before), failedCheck(after)

	if key := newFirstUse(before, after); key != nil {
		add(corev1.EventTypeNormal, eventHostKeyRecorded,
			"From now on only host key "+key.Type+" "+key.Fingerprint+" is trusted, the first that the host presented.")
	}
	if failedNow != nil && (failedBefore == nil || failedBefore.Type != failedNow.Type || failedBefore.Reason != failedNow.Reason) {
		tell(corev1.EventTypeWarning, failedNow.Reason, failedNow.Message, ofSetup)
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
			tell(corev1.EventTypeWarning, c.Reason, c.Message, ofSetup)
		}
	}
	if c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionCredentialsCurrent); c != nil {
		was := meta.FindStatusCondition(before.Conditions, c.Type)
		switch {
		case was != nil && was.Reason == c.Reason:
		case c.Reason == v1alpha1.ReasonKeyRotated:
			tell(corev1.EventTypeNormal, c.Reason, c.Message, ofHost)
		case c.Reason == v1alpha1.ReasonKeyRotationFailed || c.Reason == v1alpha1.ReasonKeyRotationInterrupted:
			tell(corev1.EventTypeWarning, c.Reason, c.Message, ofHost)
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
